// SPDX-License-Identifier: Apache-2.0
#include "lockstep/config/portable.h"

#include <algorithm>
#include <array>

namespace lockstep {

Config portable(const Config& asked, const Resolved& resolved) {
  using P = ParallelConfig;
  static constexpr std::array kAxes = {&P::pp, &P::dp_replicate, &P::dp_shard, &P::cp, &P::tp};
  Config config = resolved.config;
  config.batch = asked.batch;
  const auto takes_rest = [&](auto axis) {
    const auto& size = asked.parallel.*axis;
    return size && size->is_rest;
  };
  for (const auto axis : kAxes) {
    if (takes_rest(axis))
      config.parallel.*axis = asked.parallel.*axis;
  }
  const auto data_axis = asked.parallel.zero == 0 ? &P::dp_replicate : &P::dp_shard;
  if (std::ranges::none_of(kAxes, takes_rest) && !(asked.parallel.*data_axis))
    config.parallel.*data_axis = AxisSize{.ranks = 1, .is_rest = true};
  return config;
}

}  // namespace lockstep
