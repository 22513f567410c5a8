// SPDX-License-Identifier: Apache-2.0
#include "lockstep/strategy/assemble.h"

#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/strategy/pure/plan_run.h"

namespace lockstep::strategy {
namespace {

c10::ScalarType type_of(const std::string& word) {
  if (word == "fp64")
    return c10::ScalarType::Double;
  if (word == "fp32")
    return c10::ScalarType::Float;
  throw Error({.fault = Fault::Config,
               .where = {.subject = "precision.compute"},
               .problem = cat("training in ", word, " is not built yet"),
               .next = "Set precision.compute to fp32 or fp64"});
}

Uneven uneven_of(const std::string& word) {
  if (word == "join")
    return Uneven::Join;
  if (word == "join-active")
    return Uneven::JoinActive;
  return word == "stop" ? Uneven::Stop : Uneven::Error;
}

/// Every rate is scaled alike, so that the schedule's factor fits all groups.
optim::OptimizerOptions optimizer_of(const Resolved& resolved) {
  const OptimizerConfig& config = resolved.config.optimizer;
  const double ratio = strategy::lr_ratio(resolved);
  if (config.betas.size() != 2) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "optimizer.betas"},
                 .problem = "two numbers are needed",
                 .found = cat(config.betas.size()),
                 .next = "Write betas = [0.9, 0.999]"});
  }
  optim::OptimizerOptions options{.name = config.name,
                                  .lr = config.lr * ratio,
                                  .beta1 = config.betas[0],
                                  .beta2 = config.betas[1],
                                  .eps = config.eps,
                                  .weight_decay = config.weight_decay,
                                  .momentum = config.momentum,
                                  .clip = config.clip.value_or(0)};
  for (const OptimizerGroup& group : config.groups) {
    options.groups.push_back({.match = group.match,
                              .lr = group.lr ? std::optional(*group.lr * ratio) : std::nullopt,
                              .weight_decay = group.weight_decay});
  }
  return options;
}

}  // namespace

Assembly assemble(const Resolved& resolved,
                  const ModelSpec& spec,
                  const World& world,
                  std::shared_ptr<Region> region) {
  const Config& config = resolved.config;
  Assembly assembly{.spec = spec};
  assembly.model = nn::build_model(spec,
                                   {.seed = static_cast<std::uint64_t>(config.train.seed),
                                    .dtype = type_of(resolved.precision.compute),
                                    .region = std::move(region)});
  assembly.engine = std::make_unique<DataParallel>(
      *assembly.model,
      world.all(),
      DataParallelOptions{
          .uneven = uneven_of(config.comm.uneven),
          .bucket_bytes = config.comm.bucket_bytes,
          .graph = config.comm.static_graph ? GraphKind::Static : GraphKind::Dynamic});
  assembly.optimizer = optim::make_optimizer(*assembly.engine, optimizer_of(resolved));
  return assembly;
}

std::shared_ptr<nn::Model> build_for_inference(const Config& config, const ModelSpec& spec) {
  auto model = nn::build_model(spec,
                               {.seed = static_cast<std::uint64_t>(config.train.seed),
                                .dtype = type_of(config.precision.compute)});
  model->eval();
  return model;
}

}  // namespace lockstep::strategy
