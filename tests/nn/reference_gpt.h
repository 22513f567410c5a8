// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "lockstep/model/model_spec.h"

namespace lockstep::test {

using NamedTensors = std::map<std::string, at::Tensor>;

/// Copies of the parameters, with gradients of their own.
inline NamedTensors copy_parameters(const torch::nn::Module& model) {
  NamedTensors copies;
  for (const auto& item : model.named_parameters()) {
    copies[item.key()] = item.value().detach().clone().set_requires_grad(true);
  }
  return copies;
}

/// Logits [B, T, V] of a GPT written out with plain operators, head by head: nothing of the
/// library's modules is used.
inline at::Tensor reference_logits(const NamedTensors& p,
                                   const GptConfig& config,
                                   const at::Tensor& ids) {
  const auto norm = [&](const at::Tensor& x, const std::string& name) {
    const at::Tensor centred = x - x.mean(-1, true);
    const at::Tensor variance = centred.square().mean(-1, true);
    return centred / (variance + config.norm_eps).sqrt() * p.at(name + ".weight") +
           p.at(name + ".bias");
  };
  const auto linear = [&](const at::Tensor& x, const std::string& name) {
    return at::matmul(x, p.at(name + ".weight").t()) + p.at(name + ".bias");
  };
  const std::int64_t tokens = ids.size(1);
  const std::int64_t width = config.head_width();
  const at::Tensor allowed = at::ones({tokens, tokens}, at::kBool).tril();
  at::Tensor x = p.at("embedding.token.weight")
                     .index_select(0, ids.reshape({-1}))
                     .view({ids.size(0), tokens, config.width});
  x = x + p.at("embedding.position.weight").slice(0, 0, tokens);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = "layers." + std::to_string(layer) + ".";
    const at::Tensor qkv = linear(norm(x, name + "norm1"), name + "attention.qkv");
    std::vector<at::Tensor> heads;
    for (std::int64_t head = 0; head < config.heads; ++head) {
      const std::int64_t shared = head / (config.heads / config.kv_heads);
      const std::int64_t k_begin = config.width + shared * width;
      const std::int64_t v_begin = k_begin + config.kv_heads * width;
      const at::Tensor q = qkv.slice(2, head * width, (head + 1) * width);
      const at::Tensor k = qkv.slice(2, k_begin, k_begin + width);
      const at::Tensor v = qkv.slice(2, v_begin, v_begin + width);
      const at::Tensor scores =
          at::matmul(q, k.transpose(1, 2)) / std::sqrt(static_cast<double>(width));
      heads.push_back(at::matmul(scores.masked_fill(allowed.logical_not(), -1e30).softmax(-1), v));
    }
    x = x + linear(at::cat(heads, 2), name + "attention.out");
    const at::Tensor hidden = linear(norm(x, name + "norm2"), name + "mlp.fc1");
    const at::Tensor inner = 0.7978845608028654 * (hidden + 0.044715 * hidden.pow(3));
    x = x + linear(0.5 * hidden * (1 + inner.tanh()), name + "mlp.fc2");
  }
  const auto own = p.find("head.weight");
  const at::Tensor head = own == p.end() ? p.at("embedding.token.weight") : own->second;
  return at::matmul(norm(x, "head.norm"), head.t());
}

}  // namespace lockstep::test
