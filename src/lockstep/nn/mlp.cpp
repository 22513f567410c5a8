// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/mlp.h"

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::nn {
namespace {

/// Layers expand and contract in turn; a last one without a partner is whole.
tensor::LinearKind kind_of(std::int64_t layer, std::int64_t layers) {
  if (layer % 2 == 1) {
    return tensor::LinearKind::Contracting;
  }
  return layer + 1 == layers ? tensor::LinearKind::Whole : tensor::LinearKind::Expanding;
}

}  // namespace

Mlp::Mlp(const ModelSpec& spec, const BuildOptions& options)
    : spec_(spec),
      region_(options.region ? options.region : std::make_shared<Region>()),
      loss_(options.loss) {
  const std::int64_t count = spec_.mlp().layers;
  const Parameters parameters = Parameters(spec_, options).scope("layers");
  const auto layers = register_module("layers", std::make_shared<torch::nn::Module>());
  for (std::int64_t layer = 0; layer < count; ++layer) {
    const std::string name = cat(layer);
    layers_.push_back(layers->register_module(
        name, std::make_shared<Linear>(parameters.scope(name), kind_of(layer, count))));
  }
}

at::Tensor Mlp::forward(const at::Tensor& inputs, const ForwardContext&) {
  at::Tensor x = inputs;
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    const bool last = layer + 1 == layers_.size();
    x = region_->run(spec_.units[layer],
                     {x},
                     [module = layers_[layer].get(), last](const Tensors& in) -> Tensors {
                       const at::Tensor out = module->forward(in[0]);
                       return {last ? out : at::gelu(out, "tanh")};
                     })[0];
  }
  return x;
}

LossSum Mlp::loss(const at::Tensor& inputs,
                  const at::Tensor& targets,
                  const ForwardContext& context) {
  const at::Tensor out = forward(inputs, context);
  if (spec_.mlp().task == MlpTask::Regression) {
    if (targets.sizes() != out.sizes()) {
      throw Error({.fault = Fault::Usage,
                   .where = {.subject = spec_.name},
                   .problem = "targets have not the shape of the outputs",
                   .expected = cat(out.numel(), " values"),
                   .found = cat(targets.numel()),
                   .next = "Give one target for each output"});
    }
    return {.sum = (out - targets).square().sum(),
            .count = at::scalar_tensor(out.numel(), at::kLong)};
  }
  return {.sum = at::cross_entropy_loss(
              out, targets, {}, at::Reduction::Sum, loss_.ignore_index, loss_.label_smoothing),
          .count = targets.ne(loss_.ignore_index).sum()};
}

}  // namespace lockstep::nn
