// SPDX-License-Identifier: Apache-2.0
#include "lockstep/strategy/assemble.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/strategy/pure/plan_run.h"

namespace lockstep::strategy {
namespace {

// resolve() lets no other word through.
c10::ScalarType type_of(const std::string& word) {
  LOCKSTEP_ASSERT(word == "fp64" || word == "fp32");
  return word == "fp64" ? c10::ScalarType::Double : c10::ScalarType::Float;
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
  return {.name = config.name,
          .lr = config.lr * ratio,
          .beta1 = config.betas[0],
          .beta2 = config.betas[1],
          .eps = config.eps,
          .weight_decay = config.weight_decay,
          .momentum = config.momentum,
          .clip = config.clip.value_or(0),
          .groups = groups_of(resolved.config, ratio)};
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
          .zero = static_cast<int>(config.parallel.zero),
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
