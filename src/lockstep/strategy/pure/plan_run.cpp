// SPDX-License-Identifier: Apache-2.0
#include "lockstep/strategy/pure/plan_run.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/model/model_values.h"

namespace lockstep::strategy {
namespace {

optim::BatchScaling scaling_of(const std::string& word) {
  if (word == "linear")
    return optim::BatchScaling::Linear;
  return word == "sqrt" ? optim::BatchScaling::Sqrt : optim::BatchScaling::None;
}

TokenSequences open_files(const std::vector<std::string>& files,
                          std::int64_t sequence,
                          const ModelSpec& spec) {
  TokenSequences data(files, sequence);
  const auto vocab = static_cast<std::int64_t>(data.header().vocab);
  if (vocab > spec.gpt().vocab) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = files.front()},
                 .problem = "the data has tokens that the model does not know",
                 .expected = cat("a vocabulary of at most ", spec.gpt().vocab, " (the model's)"),
                 .found = cat(vocab, " (tokenizer ", data.header().tokenizer, ")"),
                 .next = cat("Set model.vocab to ",
                             vocab,
                             " or more, or prepare the data with another tokenizer")});
  }
  return data;
}

}  // namespace

ModelSpec model_of(const Config& config) {
  const ModelConfig& model = config.model;
  return make_model({.preset = model.preset.value_or(""),
                     .file = model.file.value_or(""),
                     .layers = model.layers,
                     .width = model.width,
                     .heads = model.heads,
                     .kv_heads = model.kv_heads,
                     .ffn_width = model.ffn_width,
                     .vocab = model.vocab,
                     .context = model.context,
                     .dropout = model.dropout,
                     .tied = model.tied});
}

std::int64_t sequence_of(const Config& config, const ModelSpec& spec) {
  if (!spec.is_gpt()) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "model.preset"},
                 .problem = cat("train reads token files, which ", spec.name, " cannot learn from"),
                 .next = "Take a GPT here; examples/ trains other models through the library"});
  }
  const std::int64_t context = spec.gpt().context;
  const std::int64_t sequence = config.batch.sequence.value_or(context);
  if (sequence > context) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "batch.sequence"},
                 .problem = "sequences are longer than the model's context",
                 .expected = cat("at most ", context, " tokens"),
                 .found = cat(sequence),
                 .next = "Lower batch.sequence or raise model.context"});
  }
  return sequence;
}

RunData open_data(const Config& config, const ModelSpec& spec) {
  const std::int64_t sequence = sequence_of(config, spec);
  if (config.data.train.empty()) {
    throw Error(
        {.fault = Fault::Config,
         .where = {.subject = "data.train"},
         .problem = "no training data is named",
         .next = "Make token files with lockstep data prepare FILES --out DIR and set data.train"});
  }
  RunData data{.train = open_files(config.data.train, sequence, spec), .valid = std::nullopt};
  if (!config.data.valid.empty())
    data.valid = open_files(config.data.valid, sequence, spec);
  return data;
}

SamplerOptions train_sampling(const Config& config, std::int64_t num_samples) {
  return {.num_samples = num_samples,
          .order = config.data.shuffle ? Order::Shuffled : Order::Sequential,
          .tail = config.data.drop_last ? Tail::Drop : Tail::Repeat,
          .seed = config.train.seed,
          .num_epochs = config.train.epochs};
}

Dealing dealing_of(const Resolved& resolved, int rank) {
  return {.rank = rank,
          .num_ranks = resolved.parallel.data_parallel(),
          .micro = resolved.batch.micro,
          .accumulation = resolved.batch.accumulation};
}

double lr_ratio(const Resolved& resolved) {
  const auto reference = static_cast<double>(resolved.batch.micro * resolved.batch.accumulation);
  return optim::scaled_lr(1,
                          scaling_of(resolved.config.lr_schedule.scale_with_batch),
                          static_cast<double>(resolved.batch.global),
                          reference);
}

std::vector<optim::GroupOptions> groups_of(const Config& config, double ratio) {
  std::vector<optim::GroupOptions> groups;
  for (const OptimizerGroup& group : config.optimizer.groups) {
    groups.push_back({.match = group.match,
                      .lr = group.lr ? std::optional(*group.lr * ratio) : std::nullopt,
                      .weight_decay = group.weight_decay});
  }
  return groups;
}

void check_groups(const Config& config, const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : spec.parameters)
    names.push_back(parameter.name);
  optim::assign_groups(names, groups_of(config, 1));
}

std::optional<std::int64_t> steps_left_in(const DistributedSampler& sampler) {
  if (!sampler.options().num_epochs)
    return std::nullopt;
  return sampler.steps_left();
}

Horizon horizon_of(const Resolved& resolved,
                   std::optional<std::int64_t> data_steps,
                   std::optional<std::int64_t> stop_after) {
  const Config& config = resolved.config;
  std::optional<std::int64_t> steps = config.train.steps;
  if (data_steps)
    steps = std::min(steps.value_or(*data_steps), *data_steps);
  if (!steps)
    steps = stop_after;
  if (!steps) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "train.steps"},
                 .problem = "nothing says how long to train",
                 .next = "Set train.steps or train.epochs, or pass --steps N"});
  }
  Horizon horizon{.steps = *steps, .last_step = stop_after.value_or(*steps)};
  if (data_steps)
    horizon.last_step = std::min(horizon.last_step, *data_steps);

  const LrScheduleConfig& lr = config.lr_schedule;
  horizon.schedule = {.name = lr.name,
                      .base = config.optimizer.lr * lr_ratio(resolved),
                      .steps = *steps,
                      .warmup = lr.warmup,
                      .decay = lr.decay,
                      .min_lr = lr.min_lr};
  optim::check(horizon.schedule);
  return horizon;
}

}  // namespace lockstep::strategy
