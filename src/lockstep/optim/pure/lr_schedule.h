// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::optim {

/// How the learning rate grows with the global batch: a batch k times the reference gives k
/// (Linear) or sqrt(k) times the rate.
enum class BatchScaling { None, Linear, Sqrt };

/// Learning rate over the steps of a run, steps from 1.
///
///   constant  base after warm-up
///   linear    base, then in a straight line to min_lr at the last step
///   cosine    base, then along half a cosine to min_lr at the last step
///   wsd       as linear, by the name under which a long stable part is usual
///
/// The fall takes the last `decay` steps: [steps - decay, steps]. Unset: all that follow the warm-up. 0: none, base throughout.
///
/// Warm-up: step s of `warmup` has base * s / warmup, so that step 1 already moves.
struct LrSchedule {
  std::string name = "constant";
  double base = 1e-3;
  std::int64_t steps = 0;             ///< the horizon; past it the last rate holds
  std::int64_t warmup = 0;            ///< in steps
  std::optional<std::int64_t> decay;  ///< in steps
  double min_lr = 0;

  /// The rate of `step`. Errors: Config for an unknown name (the nearest is told). Values that
  /// cannot work are told by check(), which runs once, not by every step.
  double at(std::int64_t step) const;

  /// at(step) / base, which multiplies the rate of every group; where base is 0, what it is for any other base, so that a
  /// group with a rate of its own still follows the schedule.
  double factor(std::int64_t step) const;
};

struct LrScheduleRow {
  std::string_view name;
  std::string_view help;
  double (*after_warmup)(const LrSchedule&, std::int64_t step);
};

/// Every schedule; help, checks and tests walk it.
std::span<const LrScheduleRow> lr_schedules();

/// Throws Config with all that is wrong with the values.
void check(const LrSchedule& schedule);

double scaled_lr(double lr, BatchScaling scaling, double global_batch, double reference_batch);

}  // namespace lockstep::optim
