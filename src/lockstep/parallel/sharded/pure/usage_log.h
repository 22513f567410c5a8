// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::sharded {

/// Which parameters got no gradient, and since when. Steps count from 1.
class UsageLog {
 public:
  explicit UsageLog(std::size_t num_parameters) : since_(num_parameters, 0) {}

  /// Ends a step in which parameter i got gradients `uses[i]` times on this rank.
  void end_step(std::span<const int> uses);

  std::int64_t steps() const { return steps_; }
  /// The step from which on the parameter got no gradient without a break, or 0 where the last step
  /// used it.
  std::int64_t unused_since(std::size_t parameter) const { return since_[parameter]; }

 private:
  std::int64_t steps_ = 0;
  std::vector<std::int64_t> since_;
};

}  // namespace lockstep::sharded
