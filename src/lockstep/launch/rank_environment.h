// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/launch/options.h"

namespace lockstep::launch {

/// What differs from one start of a rank to another.
struct RankStart {
  int local_rank = 0;
  int attempt = 0;
  int port = 0;            ///< the store's, as bound
  std::string agent;       ///< name of the rank's line to the launcher
  std::string job;         ///< ids of the launchers above, outermost first, and of this one
  std::string error_file;  ///< where Python programs leave their exception
};

/// The whole environment of a rank as NAME=VALUE: `inherited`, over it the environment file, over it the rank variables that
/// torchrun gives too. OMP_NUM_THREADS and TORCH_NCCL_ASYNC_ERROR_HANDLING are given only where they are not set.
std::vector<std::string> rank_environment(const Options& options,
                                          const RankStart& start,
                                          const std::vector<std::string>& inherited);

}  // namespace lockstep::launch
