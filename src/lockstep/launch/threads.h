// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace lockstep::launch {

/// Compute threads of one rank: the user's setting, else physical cores / local ranks, at least 1.
int threads_per_rank(int physical_cores, int local_ranks, std::optional<int> user);

/// Physical cores that this process may use: its affinity, hyper-threads counted once, cut by the control group's quota.
int physical_cores();

/// CUDA devices of this machine as far as it can be seen without loading anything: CUDA_VISIBLE_DEVICES, else /dev/nvidia*.
int visible_devices();

}  // namespace lockstep::launch
