// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/comm/world.h"
#include "lockstep/config/resolve.h"
#include "lockstep/model/model_spec.h"
#include "lockstep/nn/model.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/sharded/data_parallel.h"

namespace lockstep::strategy {

/// What trains together. Members are destroyed from the last to the first, as each refers to those before it.
struct Assembly {
  ModelSpec spec;
  std::shared_ptr<nn::Model> model;  // shared with infer, which may keep it for generation
  std::unique_ptr<DataParallel> engine;
  std::unique_ptr<optim::Optimizer> optimizer;
};

/// (ModelSpec, configuration, World) to a model, its engine and its optimizer: the only place that composes techniques.
/// `region` is the outermost decorator of the model's blocks, such as a trace; null for none.
/// Collective over the world: the ranks compare their models and start equal. Throws Config, Mismatch.
Assembly assemble(const Resolved& resolved,
                  const ModelSpec& spec,
                  const World& world,
                  std::shared_ptr<Region> region);

/// The model alone, in evaluation: for generation.
std::shared_ptr<nn::Model> build_for_inference(const Config& config, const ModelSpec& spec);

}  // namespace lockstep::strategy
