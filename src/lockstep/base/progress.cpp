// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/progress.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

constexpr double kNewestWeight = 0.1;
constexpr double kRedrawSeconds = 0.1;
constexpr int kBarCells = 20;

double share(const Progress& progress) {
  if (progress.total <= 0)
    return 0;
  return std::clamp(
      static_cast<double>(progress.done) / static_cast<double>(progress.total), 0.0, 1.0);
}

std::string tail(const Progress& progress) {
  std::string text = progress.figures.empty() ? "" : cat(", ", progress.figures);
  if (progress.seconds_left >= 0 && progress.done < progress.total)
    text += cat(", ", human_seconds(progress.seconds_left), " left");
  return text;
}

}  // namespace

std::string progress_bar(const Progress& progress, int columns) {
  const auto full = static_cast<std::size_t>(share(progress) * kBarCells);
  const std::string bar = std::string(full, '#') + std::string(kBarCells - full, '.');
  std::string text = cat(progress.unit,
                         " ",
                         progress.done,
                         "/",
                         progress.total,
                         " [",
                         bar,
                         "] ",
                         static_cast<int>(share(progress) * 100),
                         "%",
                         tail(progress));
  if (columns > 0 && text.size() > static_cast<std::size_t>(columns))
    text.resize(static_cast<std::size_t>(columns));
  return text;
}

std::string progress_line(const Progress& progress) {
  return cat(progress.unit, " ", progress.done, "/", progress.total, tail(progress));
}

void TimeLeft::add(double step_seconds) {
  mean_ = mean_ < 0 ? step_seconds : mean_ + kNewestWeight * (step_seconds - mean_);
}

double TimeLeft::of(std::int64_t steps_left) const {
  return mean_ < 0 ? -1 : mean_ * static_cast<double>(std::max<std::int64_t>(steps_left, 0));
}

ProgressDisplay::ProgressDisplay(Kind kind,
                                 int columns,
                                 std::function<void(std::string_view)> write)
    : kind_(kind), columns_(columns), write_(std::move(write)) {}

void ProgressDisplay::show(const Progress& progress, double now_seconds) {
  if (kind_ == Kind::Lines) {
    write_(progress_line(progress) + "\n");
    return;
  }
  const bool at_end = progress.done >= progress.total;
  if (drawn_ && !at_end && now_seconds - last_seconds_ < kRedrawSeconds)
    return;
  last_seconds_ = now_seconds;
  drawn_ = true;
  bar_ = progress_bar(progress, columns_ - 1);
  write_(cat("\r\x1b[K", bar_));
}

void ProgressDisplay::message(std::string_view text) {
  if (kind_ == Kind::Lines || !drawn_) {
    write_(cat(text, "\n"));
    return;
  }
  write_(cat("\r\x1b[K", text, "\n", bar_));
}

void ProgressDisplay::finish() {
  if (drawn_)
    write_("\n");
  drawn_ = false;
}

}  // namespace lockstep
