// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

/// Where a long job stands.
struct Progress {
  std::int64_t done = 0;
  std::int64_t total = 0;
  std::string unit = "step";  ///< "step 40/200"
  std::string figures;        ///< "loss 2.51, 31200 tokens/s"
  double seconds_left = -1;   ///< below zero: not known yet
};

/// "step 40/200 [######..............] 20%, loss 2.51, 31200 tokens/s, 12 s left", cut to `columns`.
std::string progress_bar(const Progress& progress, int columns);

/// The same facts as a plain line, without bar and without cutting.
std::string progress_line(const Progress& progress);

/// Seconds left from the steps timed so far: their mean, the newest ones weighing most.
/// Threads: one.
class TimeLeft {
 public:
  void add(double step_seconds);
  /// Below zero before the first step.
  double of(std::int64_t steps_left) const;

 private:
  double mean_ = -1;
};

/// Shows progress on a terminal as one line that is drawn again, or as lines where there is none.
/// Writes through `write`, so that a test can look; the bar is drawn at most ten times a second.
class ProgressDisplay {
 public:
  enum class Kind { Bar, Lines };
  ProgressDisplay(Kind kind, int columns, std::function<void(std::string_view)> write);

  /// Lines: prints `progress` as a line. Bar: draws it, if the last drawing is old enough or this is the end.
  void show(const Progress& progress, double now_seconds);
  /// A line of its own, above the bar.
  void message(std::string_view text);
  /// Ends the bar's line.
  void finish();

  Kind kind() const { return kind_; }

 private:
  Kind kind_;
  int columns_;
  std::function<void(std::string_view)> write_;
  bool drawn_ = false;
  double last_seconds_ = -1;
  std::string bar_;
};

}  // namespace lockstep
