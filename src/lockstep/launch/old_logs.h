// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/launch/options.h"

namespace lockstep::launch {

/// Removes what an earlier job left under the names that this one writes: `failure_file`, and in log_dir/attempt-K, K from
/// `first_attempt` on, the files of ranks that this node starts or that the job does not have. Files of other nodes stay.
/// Otherwise a job of fewer ranks, or one that ends well, would show an older one's lines and failure as its own.
void remove_old_logs(const Options& options);

/// One more than the highest K of log_dir/attempt-K; 0 where there is none.
int next_attempt(const std::filesystem::path& log_dir);

}  // namespace lockstep::launch
