// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/nn/blocks.h"
#include "lockstep/nn/model.h"

namespace lockstep::nn {

/// An MLP as mlp_spec describes it; each layer with its activation is a region.
class Mlp final : public Model {
 public:
  Mlp(const ModelSpec& spec, const BuildOptions& options);

  LossSum loss(const at::Tensor& inputs,
               const at::Tensor& targets,
               const ForwardContext& context) override;
  at::Tensor forward(const at::Tensor& inputs, const ForwardContext& context) override;
  const ModelSpec& spec() const override { return spec_; }

 private:
  ModelSpec spec_;
  std::shared_ptr<Region> region_;  // shared with whoever decorates it
  tensor::LossOptions loss_;
  std::vector<std::shared_ptr<Linear>> layers_;  // shared with the module tree
};

}  // namespace lockstep::nn
