// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/config/resolve.h"
#include "lockstep/data/pure/sampler.h"
#include "lockstep/data/pure/token_file.h"
#include "lockstep/model/model_spec.h"
#include "lockstep/optim/pure/groups.h"
#include "lockstep/optim/pure/lr_schedule.h"

namespace lockstep::strategy {

/// The model that [model] describes. Throws Config.
ModelSpec model_of(const Config& config);

/// Tokens of a sequence: batch.sequence, or the model's context. Throws Config where it exceeds the context.
std::int64_t sequence_of(const Config& config, const ModelSpec& spec);

/// The token files of a run. Throws Storage (missing, truncated), Config (no files, a sequence longer than the data, tokens that
/// the model's vocabulary does not have).
struct RunData {
  TokenSequences train;
  std::optional<TokenSequences> valid;
};
RunData open_data(const Config& config, const ModelSpec& spec);

/// How many steps, and what the learning rate does over them.
struct Horizon {
  std::int64_t steps = 0;  ///< of the schedule: train.steps, or the steps of the data where fewer
  std::int64_t last_step = 0;  ///< where this run ends: --steps, or `steps`
  optim::LrSchedule schedule;
};

/// Every learning rate of the run over the configured one (lr_schedule.scale_with_batch): the groups' rates as well as
/// optimizer.lr.
double lr_ratio(const Resolved& resolved);

/// The groups of [[optimizer.group]], their rates times `ratio`.
std::vector<optim::GroupOptions> groups_of(const Config& config, double ratio);

/// Throws Config naming each group that matches no parameter of the model, with the nearest name.
void check_groups(const Config& config, const ModelSpec& spec);

/// Steps to the end of the sampler's last epoch; none where it has no end.
std::optional<std::int64_t> steps_left_in(const DistributedSampler& sampler);

/// `data_steps` is where the data ends, counted from the run's first step: what a resumed run has done, by whatever number of
/// ranks, and what is left for this one; none where the data has no end.
/// Throws Config where nothing says how long to train, or the schedule does not fit.
Horizon horizon_of(const Resolved& resolved,
                   std::optional<std::int64_t> data_steps,
                   std::optional<std::int64_t> stop_after);

SamplerOptions train_sampling(const Config& config, std::int64_t num_samples);
Dealing dealing_of(const Resolved& resolved, int rank);

}  // namespace lockstep::strategy
