// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/state.h"

#include <utility>

#include <ATen/ATen.h>

#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

using checkpoint::StateTensor;

std::vector<StateTensor> model_tensors(nn::Model& model) {
  std::vector<StateTensor> tensors;
  for (const auto& item : model.named_parameters())
    tensors.push_back(checkpoint::whole_tensor(item.key(), item.value().detach()));
  for (const auto& item : model.named_buffers())
    tensors.push_back(checkpoint::whole_tensor(item.key(), item.value()));
  return tensors;
}

std::vector<StateTensor> all_tensors(strategy::Assembly& assembly) {
  std::vector<StateTensor> tensors = model_tensors(*assembly.model);
  for (const auto& state : assembly.optimizer->state()) {
    const std::string name = cat("optimizer.", state.name);
    if (state.is_whole()) {
      tensors.push_back(checkpoint::whole_tensor(name, state.tensor));
      continue;
    }
    checkpoint::Part part = checkpoint::whole(state.shape);
    part.begin = state.begin;
    part.end = state.begin + state.tensor.numel();
    tensors.push_back({.name = name, .shape = state.shape, .part = part, .data = state.tensor});
  }
  return tensors;
}

}  // namespace

checkpoint::Snapshot snapshot_of(strategy::Assembly& assembly, RunState state) {
  state.optimizer_steps = assembly.optimizer->step_counts();
  checkpoint::Snapshot snapshot{.step = state.step, .tensors = all_tensors(assembly)};
  for (const AliasSpec& alias : assembly.spec.aliases)
    snapshot.aliases[alias.name] = alias.target;
  snapshot.state = to_json(state);
  return snapshot;
}

RunState restore(strategy::Assembly& assembly, const checkpoint::Checkpoint& from) {
  RunState state = parse_run_state(from.state(), from.folder().string());
  for (const auto& [parameter, steps] : state.optimizer_steps)
    assembly.optimizer->make_state(parameter);
  std::vector<StateTensor> tensors = all_tensors(assembly);
  from.load(tensors, checkpoint::Scope::Everything, checkpoint::Names::Strict);
  assembly.optimizer->set_step_counts(state.optimizer_steps);
  return state;
}

void restore_model(nn::Model& model, const checkpoint::Checkpoint& from) {
  std::vector<StateTensor> tensors = model_tensors(model);
  from.load(tensors, checkpoint::Scope::Model, checkpoint::Names::Strict);
}

}  // namespace lockstep::train
