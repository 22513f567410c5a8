// SPDX-License-Identifier: Apache-2.0
#include "lockstep/config/resolve.h"

#include <array>
#include <optional>

#include "lockstep/base/text.h"

namespace lockstep {

namespace {

using Findings = std::vector<Finding>;

struct Axis {
  std::string_view name;
  std::optional<AxisSize> ParallelConfig::* asked;
  std::int64_t ParallelSizes::* ranks;
};

constexpr std::array<Axis, 5> kAxes = {{
    {"pp", &ParallelConfig::pp, &ParallelSizes::pp},
    {"dp_replicate", &ParallelConfig::dp_replicate, &ParallelSizes::dp_replicate},
    {"dp_shard", &ParallelConfig::dp_shard, &ParallelSizes::dp_shard},
    {"cp", &ParallelConfig::cp, &ParallelSizes::cp},
    {"tp", &ParallelConfig::tp, &ParallelSizes::tp},
}};

std::string sizes_text(const ParallelSizes& sizes) {
  std::vector<std::string> parts;
  for (const Axis& axis : kAxes)
    parts.push_back(cat(axis.name, " ", sizes.*axis.ranks));
  return join(parts, " x ");
}

// The axes with "rest" in place, and the one that takes the rest.
ParallelSizes resolve_axes(const ParallelConfig& config,
                           std::int64_t world_size,
                           Findings& findings) {
  ParallelSizes sizes;
  std::vector<std::string> rest;
  const Axis* taker = nullptr;
  for (const Axis& axis : kAxes) {
    const auto& asked = config.*axis.asked;
    if (asked && asked->is_rest) {
      rest.push_back(cat("parallel.", axis.name));
      taker = &axis;
    } else if (asked) {
      sizes.*axis.ranks = asked->ranks;
    }
  }
  const Axis& data_axis = kAxes[config.zero == 0 ? 1 : 2];
  if (taker == nullptr && !(config.*data_axis.asked))
    taker = &data_axis;
  if (rest.size() > 1) {
    findings.push_back(
        {join(rest, ", "), "only one axis can be \"rest\"", "Give the others a number"});
    return sizes;
  }
  const std::int64_t others = sizes.world();
  if (taker != nullptr && world_size % others == 0)
    sizes.*(taker->ranks) = world_size / others;
  if (sizes.world() != world_size) {
    findings.push_back({"parallel",
                        cat("the axes make ",
                            sizes_text(sizes),
                            " = ",
                            sizes.world(),
                            " ranks, but there are ",
                            world_size),
                        cat("Start ", others, " ranks or a multiple of it, or change the axes")});
  }
  if (config.zero == 0 && sizes.dp_shard > 1) {
    findings.push_back({"parallel.dp_shard",
                        cat(sizes.dp_shard, " ranks shard, but zero = 0 shards nothing"),
                        "Set zero to 1, 2 or 3, or use dp_replicate"});
  }
  return sizes;
}

// a / b where it divides; else a finding that says of what.
std::int64_t divide(std::int64_t global,
                    std::int64_t by,
                    const std::string& why,
                    Findings& findings) {
  if (global % by == 0)
    return global / by;
  const std::int64_t below = global - global % by;
  const std::string below_text = below > 0 ? cat(below, " or ") : std::string();
  findings.push_back(
      {"batch.global",
       cat("a global batch of ", global, " sequences does not divide by ", why, " = ", by),
       cat("Set it to a multiple of ", by, ", such as ", below_text, below + by)});
  return 1;
}

BatchSizes resolve_batch(const BatchConfig& batch, std::int64_t data_parallel, Findings& findings) {
  const std::int64_t d = data_parallel;
  const std::string size = cat("the data-parallel size ", d);
  BatchSizes sizes{.micro = batch.micro.value_or(1),
                   .accumulation = batch.accumulation.value_or(1),
                   .global = batch.global.value_or(1)};
  if (batch.micro && batch.accumulation && batch.global) {
    if (sizes.micro * sizes.accumulation * d != sizes.global) {
      findings.push_back({"batch",
                          cat("micro ",
                              sizes.micro,
                              " x accumulation ",
                              sizes.accumulation,
                              " x ",
                              size,
                              " is ",
                              sizes.micro * sizes.accumulation * d,
                              ", not global ",
                              sizes.global),
                          "Leave one of the three out: it follows from the other two"});
    }
  } else if (batch.micro && batch.global) {
    sizes.accumulation =
        divide(sizes.global, sizes.micro * d, cat("micro ", sizes.micro, " x ", size), findings);
  } else if (batch.global) {
    const std::string why =
        batch.accumulation ? cat("accumulation ", sizes.accumulation, " x ", size) : size;
    sizes.micro = divide(sizes.global, sizes.accumulation * d, why, findings);
  } else if (batch.micro) {
    sizes.global = sizes.micro * sizes.accumulation * d;
  } else {
    findings.push_back(
        {"batch",
         batch.accumulation ? "accumulation alone does not give a batch" : "no batch size is given",
         "Set global, the sequences of a step, or micro, those of a rank at once"});
  }
  return sizes;
}

PrecisionPolicy resolve_precision(const PrecisionConfig& precision, Findings& findings) {
  const bool half = precision.compute == "bf16" || precision.compute == "fp16";
  PrecisionPolicy policy{.compute = precision.compute};
  policy.reduce = precision.reduce.value_or(precision.compute == "fp64" ? "fp64" : "fp32");
  policy.wire = precision.wire.value_or(policy.reduce);
  policy.master = precision.master.value_or(half ? "fp32" : "none");
  if (precision.compute == "fp64" && policy.master == "fp32") {
    findings.push_back({"precision.master",
                        "a master copy in fp32 is coarser than compute = fp64",
                        "Set master = \"none\""});
  }
  return policy;
}

void check_model(const ModelConfig& model, Findings& findings) {
  std::vector<std::string> sources;
  if (model.preset)
    sources.push_back("model.preset");
  if (model.file)
    sources.push_back("model.file");
  if (model.init_from)
    sources.push_back("model.init_from");
  if (sources.size() > 1)
    findings.push_back(
        {join(sources, ", "), "the model comes from one place only", "Keep one of them"});
}

void check_optimizer(const OptimizerConfig& optimizer, Findings& findings) {
  if (!(optimizer.eps > 0)) {
    findings.push_back(
        {"optimizer.eps",
         cat("it keeps the division finite and must be above 0, found ", optimizer.eps),
         "Leave it out or write eps = 1e-8"});
  }
}

// What only works on validation data would be left out without a word.
void check_evaluation(const Config& config, Findings& findings) {
  if (!config.data.valid.empty())
    return;
  const char* problem = "there is no validation data to evaluate on";
  if (config.train.eval_every > 0) {
    findings.push_back(
        {"train.eval_every", problem, "Name token files in data.valid, or leave it out"});
  }
  if (config.checkpoint.keep_best) {
    findings.push_back(
        {"checkpoint.keep_best", problem, "Name token files in data.valid, or leave it out"});
  }
}

void check_train(const Config& config, Findings& findings) {
  if (config.lr_schedule.min_lr > config.optimizer.lr) {
    findings.push_back(
        {"lr_schedule.min_lr",
         cat(config.lr_schedule.min_lr, " is above optimizer.lr ", config.optimizer.lr),
         "Lower it"});
  }
  const auto steps = config.train.steps;
  if (steps && config.lr_schedule.warmup > *steps) {
    findings.push_back({"lr_schedule.warmup",
                        cat(config.lr_schedule.warmup, " steps of warm-up in a run of ", *steps),
                        "Lower it or raise train.steps"});
  }
}

// What was derived goes back into the configuration, so that it prints as what runs.
void fill(Resolved& resolved) {
  for (const Axis& axis : kAxes)
    resolved.config.parallel.*axis.asked = AxisSize{.ranks = resolved.parallel.*axis.ranks};
  resolved.config.batch.micro = resolved.batch.micro;
  resolved.config.batch.accumulation = resolved.batch.accumulation;
  resolved.config.batch.global = resolved.batch.global;
  resolved.config.precision.reduce = resolved.precision.reduce;
  resolved.config.precision.wire = resolved.precision.wire;
  resolved.config.precision.master = resolved.precision.master;
}

}  // namespace

Resolved resolve(const Config& config, std::int64_t world_size) {
  LOCKSTEP_ASSERT(world_size >= 1);
  Findings findings;
  Resolved resolved{.config = config};
  resolved.parallel = resolve_axes(config.parallel, world_size, findings);
  // With a wrong mesh the data-parallel size is not known, and what the batch says about it would
  // mislead.
  if (findings.empty())
    resolved.batch = resolve_batch(config.batch, resolved.parallel.data_parallel(), findings);
  resolved.precision = resolve_precision(config.precision, findings);
  check_model(config.model, findings);
  check_train(config, findings);
  check_optimizer(config.optimizer, findings);
  check_evaluation(config, findings);
  for (const Finding& finding : unsupported(resolved))
    findings.push_back(finding);
  throw_findings(Fault::Config,
                 findings.size() == 1 ? "1 setting cannot work"
                                      : cat(findings.size(), " settings cannot work"),
                 findings);
  fill(resolved);
  return resolved;
}

}  // namespace lockstep
