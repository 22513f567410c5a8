// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <poll.h>
#include <string>
#include <vector>

#include "lockstep/launch/console.h"
#include "lockstep/launch/fd.h"
#include "lockstep/launch/lines.h"

namespace lockstep::launch {

/// A file that takes whole lines; a failed write is remembered once and ends the writing, never the job.
class LogFile {
 public:
  LogFile() = default;
  /// Makes the folder. Throws Storage when the file cannot be made.
  explicit LogFile(const std::filesystem::path& path);
  /// Holds the lines, at most 1 MiB of them, until the folder `once_there` exists, which the job makes once its input is
  /// checked; a job that ends before leaves no file. From then on as above, but a file that cannot be made is a problem that
  /// is told and no error.
  LogFile(std::filesystem::path path, std::filesystem::path once_there);
  void line(std::string_view text);
  /// Writes what is held if the folder is there by now.
  void flush_held();
  /// The reason, the first time it is asked after a write failed.
  std::string take_problem();

 private:
  std::string make();  ///< what went wrong
  void write_whole(std::string_view text);

  Fd fd_;
  std::filesystem::path path_;
  std::filesystem::path once_there_;
  std::string held_;
  std::string problem_;
};

/// One stream of a rank: a pipe whose lines go to the console, to the rank's file, and into the tail for the report.
class RankStream {
 public:
  struct Route {
    Console::Stream stream = Console::Stream::Out;
    std::string prefix;
    bool to_console = true;
    std::size_t tail_lines = 20;
  };

  explicit RankStream(Route route) : route_(std::move(route)), tail_(route_.tail_lines) {}
  /// Makes the pipe and returns the end to write to; the caller closes it once the rank has it.
  [[nodiscard]] Fd open();
  void add_polls(std::vector<pollfd>& polls) const;
  /// Takes what is there, without waiting, at most 64 KiB.
  void pump(Console& console, LogFile& file);
  /// What was left without an end of line.
  void finish(Console& console, LogFile& file);
  bool open_still() const { return pipe_.open(); }
  std::vector<std::string> last_lines() const { return tail_.lines(); }

 private:
  void take(std::string_view line, Console& console, LogFile& file);
  Route route_;
  Fd pipe_;
  LineCutter cutter_;
  Tail tail_;
};

}  // namespace lockstep::launch
