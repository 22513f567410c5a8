// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <poll.h>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

/// The launcher's own standard output and standard error. Lines are queued and written as the reader takes them, so that a slow
/// reader never stops the launcher from hearing signals; whole lines only, also where both streams are one pipe.
class Console {
 public:
  enum class Stream { Out, Err };

  void line(Stream stream, std::string_view prefix, std::string_view text);
  /// Several lines of the launcher itself, on standard error.
  void say(std::string_view text);

  /// The reader is behind: take no more from the ranks for now.
  bool full() const;
  void add_polls(std::vector<pollfd>& polls) const;
  /// Writes what can be written without waiting.
  void pump();
  /// Writes the rest as any program does: the reader decides how long it takes. Called when no process of the job is left.
  void finish();

 private:
  struct Sink {
    int fd;
    std::string queue;
    std::size_t written = 0;
    bool gone = false;  ///< nobody reads any more
    bool inside_line = false;
  };
  bool write_piece(Sink& sink, int wait_ms);
  std::array<Sink, 2> sinks_ = {Sink{1, {}, 0, false, false}, Sink{2, {}, 0, false, false}};
};

}  // namespace lockstep::launch
