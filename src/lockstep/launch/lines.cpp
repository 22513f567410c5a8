// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/lines.h"

#include "lockstep/base/text.h"

namespace lockstep::launch {

namespace {
constexpr std::size_t kLongestLine = std::size_t{1} << 20;
constexpr std::size_t kLongestInTail = 2000;
}  // namespace

void LineCutter::feed(std::string_view bytes, const Take& take) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find_first_of("\n\r");
    rest_.append(bytes.substr(0, end));
    if (end == std::string_view::npos)
      break;
    // "\r\n" and the blank lines that progress bars make are one end; a blank line of its own stays.
    if (bytes[end] == '\n' || !rest_.empty()) {
      if (bytes[end] == '\n' || (end + 1 < bytes.size() && bytes[end + 1] != '\n')) {
        take(rest_);
        rest_.clear();
      }
    }
    bytes.remove_prefix(end + 1);
  }
  if (rest_.size() < kLongestLine)
    return;
  take(rest_);
  rest_.clear();
}

void LineCutter::finish(const Take& take) {
  if (!rest_.empty())
    take(rest_);
  rest_.clear();
}

void Tail::add(std::string_view line) {
  if (lines_.size() == most_)
    lines_.pop_front();
  lines_.push_back(line.size() > kLongestInTail ? cat(line.substr(0, kLongestInTail), " ...")
                                                : std::string(line));
}

}  // namespace lockstep::launch
