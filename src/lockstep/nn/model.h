// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <torch/nn/module.h>

#include "lockstep/model/model_spec.h"
#include "lockstep/parallel/tensor/forward_context.h"
#include "lockstep/parallel/tensor/loss.h"
#include "lockstep/parallel/tensor/ops.h"
#include "lockstep/region/region.h"

namespace lockstep::nn {

/// How a model is built. Device, region and ops do not change a result beyond rounding.
struct BuildOptions {
  std::uint64_t seed = 0;  ///< of the starting values, with each parameter's name
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::shared_ptr<Region> region;  ///< shared with whoever decorates it; empty: the plain one
  std::shared_ptr<const tensor::Ops> ops;  ///< shared by all models; empty: serial
  tensor::LossOptions loss = {};
};

/// A model that can be trained: an ordinary torch module whose named_parameters() are those of its
/// ModelSpec, and a loss.
class Model : public torch::nn::Module {
 public:
  /// The sum of the losses of a batch and their number.
  ///   GPT                  inputs, targets [B, T] int64, T <= context; targets: the inputs one
  ///                        token later
  ///   MLP, classification  inputs [B, in], targets [B] int64
  ///   MLP, regression      inputs [B, in], targets [B, out]: squared errors, count B * out
  /// Targets equal to LossOptions::ignore_index count for nothing.
  virtual LossSum loss(const at::Tensor& inputs,
                       const at::Tensor& targets,
                       const ForwardContext& context) = 0;

  /// What comes before the loss: logits [B, T, V] of a GPT, outputs [B, out] of an MLP. Holds them
  /// all at once.
  virtual at::Tensor forward(const at::Tensor& inputs, const ForwardContext& context) = 0;

  virtual const ModelSpec& spec() const = 0;
};

/// Builds the model that `spec` describes. Throws Config for a dtype that is no floating type.
std::shared_ptr<Model> build_model(const ModelSpec& spec, const BuildOptions& options = {});

}  // namespace lockstep::nn
