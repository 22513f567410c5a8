// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/fused.h"

#include <cmath>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/optim/gradient_norm.h"

namespace lockstep::optim {

FusedOptimizer::FusedOptimizer(DataParallel& engine,
                               const OptimizerOptions& options,
                               std::vector<std::string> state_kinds)
    : engine_(engine),
      options_(options),
      num_kinds_(state_kinds.size()),
      state_(std::move(state_kinds)) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : engine_.parameters())
    names.push_back(name);
  const std::vector<int> groups = assign_groups(names, options_.groups);
  for (std::size_t at = 0; at < names.size(); ++at)
    group_of_[names[at]] = groups[at];
  engine_.keep_scale();
}

double FusedOptimizer::lr_of(std::string_view parameter) const {
  const int group = group_of_.find(parameter)->second;
  return group < 0 ? options_.lr
                   : options_.groups[static_cast<std::size_t>(group)].lr.value_or(options_.lr);
}

void FusedOptimizer::make_state(std::string_view parameter) {
  const UpdateSlice slice = engine_.slice_of(parameter);
  state_.ensure({&slice, 1});
}

StepResult FusedOptimizer::step(double lr_factor) {
  if (!std::isfinite(lr_factor)) {
    throw Error({.fault = Fault::Numeric,
                 .where = {.operation = "optimizer step", .subject = "lr_factor"},
                 .problem = "the factor of the learning rate is not finite; nothing was changed",
                 .expected = "a number such as LrSchedule::factor(step)",
                 .found = cat(lr_factor),
                 .next = "Correct the schedule"});
  }
  lr_factor_ = lr_factor;
  engine_.update(*this);
  return result_;
}

FusedOptimizer::Batch& FusedOptimizer::batch_for(std::vector<Batch>& batches,
                                                 const UpdateSlice& slice,
                                                 bool first_step) const {
  const int group = group_of_.find(slice.name)->second;
  const double decay = group < 0
                           ? options_.weight_decay
                           : options_.groups[static_cast<std::size_t>(group)].weight_decay.value_or(
                                 options_.weight_decay);
  const double lr = lr_of(slice.name) * lr_factor_;
  for (Batch& batch : batches) {
    if (batch.lr == lr && batch.weight_decay == decay && batch.first_step == first_step &&
        batch.values.front().dtype() == slice.value.dtype() &&
        batch.values.front().device() == slice.value.device()) {
      return batch;
    }
  }
  Batch& batch = batches.emplace_back();
  batch.lr = lr;
  batch.weight_decay = decay;
  batch.first_step = first_step;
  batch.states.resize(num_kinds_);
  return batch;
}

void FusedOptimizer::update(std::span<const UpdateSlice> slices, const UpdateStep& step) {
  at::NoGradGuard no_grad;
  std::vector<std::string> names;
  std::vector<at::Tensor> gradients;
  for (const UpdateSlice& slice : slices) {
    names.push_back(slice.name);
    gradients.push_back(slice.gradient);
  }
  result_.grad_norm = gradient_norm(names, gradients, step);
  result_.clip_factor = clip_factor(result_.grad_norm, options_.clip);

  state_.ensure(slices);
  std::vector<Batch> batches;
  for (const UpdateSlice& slice : slices) {
    FlatState::OfParameter& state = state_.of(slice.name);
    const bool first_step = state.steps == 0;
    ++state.steps;  // counters are the parameter's, whoever updates it
    state.step.fill_(static_cast<double>(state.steps));
    if (slice.value.numel() == 0)
      continue;
    Batch& batch = batch_for(batches, slice, first_step);
    batch.values.push_back(slice.value);
    batch.gradients.push_back(slice.gradient);
    for (std::size_t kind = 0; kind < num_kinds_; ++kind)
      batch.states[kind].push_back(state.tensors[kind]);
    batch.steps.push_back(state.step);
  }
  const double factor = step.scale * result_.clip_factor;
  for (Batch& batch : batches) {
    // The kernels take the divisor in fp32 only, which is too coarse for fp64.
    if (factor != 1 && batch.values.front().scalar_type() == at::kDouble) {
      for (at::Tensor& gradient : batch.gradients)
        gradient.mul_(factor);
    } else if (factor != 1) {
      batch.divisor = at::full({}, 1 / factor, batch.values.front().options().dtype(at::kFloat));
    }
    run(batch);
  }
}

}  // namespace lockstep::optim
