// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/console.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep::launch {

using namespace std::chrono_literals;

namespace {
// A pipe that polls as writable takes PIPE_BUF bytes without blocking.
constexpr std::size_t kPiece = 4096;
constexpr std::size_t kMostQueued = std::size_t{1} << 20;
constexpr auto kLongestStall = 2000ms;
}  // namespace

void Console::line(Stream stream, std::string_view prefix, std::string_view text) {
  Sink& sink = sinks_[stream == Stream::Out ? 0 : 1];
  if (sink.gone)
    return;
  sink.queue.append(prefix).append(text).push_back('\n');
}

void Console::say(std::string_view text) {
  Sink& sink = sinks_[1];
  if (sink.gone)
    return;
  sink.queue.append(text);
  if (!text.ends_with('\n'))
    sink.queue.push_back('\n');
}

bool Console::full() const {
  return std::any_of(sinks_.begin(), sinks_.end(), [](const Sink& sink) {
    return sink.queue.size() - sink.written > kMostQueued;
  });
}

void Console::add_polls(std::vector<pollfd>& polls) const {
  for (const Sink& sink : sinks_) {
    if (sink.written < sink.queue.size())
      polls.push_back({sink.fd, POLLOUT, 0});
  }
}

void Console::drop(Sink& sink) {
  sink.gone = true;
  sink.queue.clear();
  sink.written = 0;
  sink.inside_line = false;
}

int Console::take_loss() { return std::exchange(loss_told_, loss() != 0) ? 0 : loss(); }

bool Console::write_piece(Sink& sink, int wait_ms) {
  if (sink.written == sink.queue.size())
    return false;
  pollfd writable{sink.fd, POLLOUT, 0};
  if (poll(&writable, 1, wait_ms) <= 0)
    return false;
  const std::string_view rest = std::string_view(sink.queue).substr(sink.written);
  std::size_t size = std::min(rest.size(), kPiece);
  const std::size_t end = rest.substr(0, size).rfind('\n');
  if (end != std::string_view::npos)
    size = end + 1;
  const ssize_t done = ::write(sink.fd, rest.data(), size);
  if (done < 0) {
    if (errno == EAGAIN || errno == EINTR)
      return errno == EINTR;
    sink.error = errno;
    drop(sink);
    return false;
  }
  sink.written += static_cast<std::size_t>(done);
  sink.inside_line = sink.queue[sink.written - 1] != '\n';
  if (sink.written == sink.queue.size() || sink.written > kMostQueued) {
    sink.queue.erase(0, sink.written);
    sink.written = 0;
  }
  return true;
}

void Console::pump() {
  for (Sink& sink : sinks_) {
    const Sink& other = &sink == &sinks_[0] ? sinks_[1] : sinks_[0];
    while (!other.inside_line && write_piece(sink, 0)) {
    }
  }
}

void Console::finish(Patience patience, std::chrono::milliseconds most) {
  const auto stop_at = std::chrono::steady_clock::now() + most;
  const auto wait_ms = [&] {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(stop_at - std::chrono::steady_clock::now());
    return patience == Patience::ToTheEnd
               ? -1
               : static_cast<int>(std::clamp(left, 0ms, kLongestStall).count());
  };
  pump();
  std::size_t dropped_bytes = 0;
  // The stream inside a line goes first; the end of the other may be what tells people about it.
  const std::size_t first = sinks_[1].inside_line ? 1 : 0;
  for (Sink* sink : {&sinks_[first], &sinks_[1 - first]}) {
    while (write_piece(*sink, wait_ms())) {
    }
    const std::size_t left = sink->queue.size() - sink->written;
    if (left == 0)
      continue;
    drop(*sink);
    if (sink == sinks_.data())
      dropped_bytes = left;
  }
  if (dropped_bytes == 0)
    return;
  say(cat(
      "lockstep: nobody took the last ", dropped_bytes, " bytes of the ranks' output: dropped"));
  pump();
}

}  // namespace lockstep::launch
