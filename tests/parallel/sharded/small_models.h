// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

namespace lockstep::test {

/// A module of named parameters with one element each.
class Scalars : public torch::nn::Module {
 public:
  explicit Scalars(const std::vector<std::pair<std::string, float>>& values) {
    for (const auto& [name, value] : values)
      register_parameter(name, at::full({}, value));
  }
  at::Tensor operator[](const std::string& name) const { return named_parameters()[name]; }
};

inline float gradient(const Scalars& model, const std::string& name) {
  const at::Tensor found = model[name].grad();
  return found.defined() ? found.item<float>() : std::numeric_limits<float>::quiet_NaN();
}

/// Square linear layers in a row, some of which a forward may skip.
class Layers : public torch::nn::Module {
 public:
  Layers(const std::vector<std::string>& names, std::int64_t width) {
    for (const std::string& name : names)
      layers_.emplace_back(name, register_module(name, torch::nn::Linear(width, width)));
  }
  at::Tensor forward(at::Tensor x, const std::set<std::string>& skipped = {}) {
    for (auto& [name, layer] : layers_) {
      if (!skipped.contains(name))
        x = layer->forward(x);
    }
    return x;
  }
  torch::nn::Linear& layer(const std::string& name) {
    for (auto& [own, layer] : layers_) {
      if (own == name)
        return layer;
    }
    throw std::out_of_range(name);
  }

 private:
  std::vector<std::pair<std::string, torch::nn::Linear>> layers_;
};

/// Linear and batch norm.
class NormNet : public torch::nn::Module {
 public:
  explicit NormNet(std::int64_t width)
      : linear(register_module("linear", torch::nn::Linear(width, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))) {}
  at::Tensor forward(const at::Tensor& x) { return norm->forward(linear->forward(x)); }
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm;
};

inline void copy_values(const torch::nn::Module& from, torch::nn::Module& to) {
  at::NoGradGuard no_grad;
  const std::vector<at::Tensor> source = from.parameters();
  std::vector<at::Tensor> target = to.parameters();
  for (std::size_t at = 0; at < source.size(); ++at)
    target[at].copy_(source[at]);
}

using Body = std::function<at::Tensor(const at::Tensor&)>;

/// Recomputation as a user writes it: forward without graph, and a backward of its own inside the outer one.
struct Recompute : torch::autograd::Function<Recompute> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& input,
                            const Body* body) {
    context->save_for_backward({input});
    context->saved_data["body"] = reinterpret_cast<std::int64_t>(body);
    return (*body)(input);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor input = context->get_saved_variables()[0].detach().requires_grad_();
    const auto* body = reinterpret_cast<const Body*>(context->saved_data["body"].toInt());
    {
      at::AutoGradMode with_grad(true);
      const at::Tensor output = (*body)(input);
      output.backward(gradients[0]);
    }
    return {input.grad(), at::Tensor()};
  }
};

/// `body` must outlive the backward.
inline at::Tensor recompute(const Body& body, const at::Tensor& input) {
  return Recompute::apply(input, &body);
}

}  // namespace lockstep::test
