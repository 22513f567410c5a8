// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/console.h"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace lockstep::launch {

namespace {
// A pipe that polls as writable takes PIPE_BUF bytes without blocking.
constexpr std::size_t kPiece = 4096;
constexpr std::size_t kMostQueued = std::size_t{1} << 20;
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
    sink.gone = true;
    sink.queue.clear();
    sink.written = 0;
    sink.inside_line = false;
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

void Console::finish() {
  pump();
  std::sort(sinks_.begin(), sinks_.end(), [](const Sink& a, const Sink& b) {
    return a.inside_line > b.inside_line;
  });
  for (Sink& sink : sinks_) {
    while (write_piece(sink, -1)) {
    }
  }
}

}  // namespace lockstep::launch
