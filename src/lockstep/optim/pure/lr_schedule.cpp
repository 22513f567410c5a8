// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/pure/lr_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::optim {

namespace {

/// Part of the way from step `from` to step `to`, in [0, 1].
double way(std::int64_t step, std::int64_t from, std::int64_t to) {
  if (to <= from)
    return 0;  // no fall at all
  return std::clamp(static_cast<double>(step - from) / static_cast<double>(to - from), 0.0, 1.0);
}

/// Part of the fall that is behind at `step`.
double fallen(const LrSchedule& s, std::int64_t step) {
  const std::int64_t from =
      s.decay ? s.steps - *s.decay : std::max<std::int64_t>(1, s.warmup);  // step 1 is the first
  return way(step, from, s.steps);
}

double constant(const LrSchedule& s, std::int64_t) { return s.base; }

double linear(const LrSchedule& s, std::int64_t step) {
  return std::lerp(s.base, s.min_lr, fallen(s, step));
}

double cosine(const LrSchedule& s, std::int64_t step) {
  const double part = fallen(s, step);
  return s.min_lr + (s.base - s.min_lr) * 0.5 * (1 + std::cos(std::numbers::pi * part));
}

constexpr std::array<LrScheduleRow, 4> kRows = {{
    {"constant", "the base rate after warm-up", constant},
    {"linear", "falls in a straight line to min_lr over the last `decay` steps", linear},
    {"cosine", "falls along half a cosine to min_lr over the last `decay` steps", cosine},
    {"wsd",
     "stays at the base rate, then falls as linear does over the last `decay` steps",
     linear},
}};

const LrScheduleRow* row_of(std::string_view name) {
  const auto row = std::ranges::find(kRows, name, &LrScheduleRow::name);
  return row == kRows.end() ? nullptr : &*row;
}

}  // namespace

std::span<const LrScheduleRow> lr_schedules() { return kRows; }

void check(const LrSchedule& s) {
  std::vector<Finding> findings;
  if (row_of(s.name) == nullptr) {
    std::vector<std::string> names;
    for (const LrScheduleRow& row : kRows)
      names.emplace_back(row.name);
    findings.push_back({"lr_schedule.name",
                        cat("no schedule is called '", s.name, "'", did_you_mean(s.name, names)),
                        cat("Take one of ", join(names, ", "))});
  }
  const std::int64_t decay = s.name == "constant" ? 0 : s.decay.value_or(0);
  if (s.warmup < 0 || decay < 0) {
    findings.push_back(
        {"lr_schedule", "warmup and decay are numbers of steps, at least 0", "Give whole numbers"});
  }
  if (s.steps > 0 && s.warmup + decay > s.steps) {
    findings.push_back({"lr_schedule.warmup",
                        cat("warm-up (",
                            s.warmup,
                            ") and decay (",
                            decay,
                            ") take longer than the ",
                            s.steps,
                            " steps of the run"),
                        "Shorten them, or raise train.steps"});
  }
  if (!(s.base >= 0) || !(s.min_lr >= 0)) {
    findings.push_back(
        {"optimizer.lr",
         cat("learning rates are at least 0, found ", s.base, " and min_lr ", s.min_lr),
         "Give positive rates"});
  }
  if (s.base == 0 && s.min_lr > 0) {
    findings.push_back({"lr_schedule.min_lr",
                        cat("a rate of 0 (optimizer.lr) cannot fall to ", s.min_lr),
                        "Leave out min_lr, or raise optimizer.lr"});
  }
  if (s.name != "constant" && s.steps <= 0) {
    findings.push_back({"train.steps",
                        cat("schedule '", s.name, "' ends at the last step, which is not known"),
                        "Set train.steps"});
  }
  throw_findings(Fault::Config, "the learning-rate schedule cannot work", findings);
}

double LrSchedule::at(std::int64_t step) const {
  const LrScheduleRow* row = row_of(name);
  if (row == nullptr)
    check(*this);
  if (step < warmup)
    return base * static_cast<double>(step) / static_cast<double>(warmup);
  return row->after_warmup(*this, step);
}

double LrSchedule::factor(std::int64_t step) const {
  if (base != 0)
    return at(step) / base;
  LrSchedule shape = *this;
  shape.base = 1;
  return shape.at(step);
}

double scaled_lr(double lr, BatchScaling scaling, double global_batch, double reference_batch) {
  const double ratio = global_batch / reference_batch;
  switch (scaling) {
    case BatchScaling::Linear: return lr * ratio;
    case BatchScaling::Sqrt: return lr * std::sqrt(ratio);
    case BatchScaling::None: break;
  }
  return lr;
}

}  // namespace lockstep::optim
