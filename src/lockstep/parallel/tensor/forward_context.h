// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// What a forward pass must know beside its inputs. It is data, so the same context gives the same
/// result on any rank, for any cut of the batch, and again in recomputation.
struct ForwardContext {
  bool training = false;              ///< dropout acts in training only
  std::uint64_t seed = 0;             ///< the job's
  std::int64_t step = 0;              ///< optimizer step, from 1
  std::vector<std::int64_t> samples;  ///< a row's id, unique in the step; used by dropout only
};

}  // namespace lockstep
