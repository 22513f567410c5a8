// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
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
  /// Writes the rest. Called when no process of the job is left.
  /// `ToTheEnd`: as any program does, the reader decides how long it takes. `Briefly`, after a failure or a signal: a reader
  /// that takes nothing for two seconds, or not everything within `most`, loses the rest, and is told so.
  enum class Patience { ToTheEnd, Briefly };
  void finish(Patience patience, std::chrono::milliseconds most);
  /// Why standard output cannot be written any more, the first time this is asked (EPIPE: nobody reads it); else 0.
  int take_loss();
  /// The same, each time.
  int loss() const { return sinks_[0].error; }

 private:
  struct Sink {
    int fd;
    std::string queue;
    std::size_t written = 0;
    bool gone = false;  ///< nobody reads any more
    bool inside_line = false;
    int error = 0;  ///< that a write ended with
  };
  bool write_piece(Sink& sink, int wait_ms);
  static void drop(Sink& sink);
  std::array<Sink, 2> sinks_ = {Sink{1, {}, 0, false, false, 0}, Sink{2, {}, 0, false, false, 0}};
  bool loss_told_ = false;
};

}  // namespace lockstep::launch
