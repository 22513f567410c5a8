// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/blocks.h"

#include <ATen/ATen.h>

#include "lockstep/base/philox.h"

namespace lockstep::nn {
namespace {

tensor::DropoutSite site_of(const std::string& name, double rate) {
  return {.id = hash_name(name), .rate = rate};
}

/// [B, T, n D] as [B, n, T, D], without a copy.
at::Tensor as_heads(const at::Tensor& x, std::int64_t heads, std::int64_t head_width) {
  return x.view({x.size(0), x.size(1), heads, head_width}).transpose(1, 2);
}

void extend(at::Tensor& held, at::Tensor& fresh) {
  held = held.defined() ? at::cat({held, fresh}, 2) : fresh;
  fresh = held;
}

}  // namespace

Linear::Linear(const Parameters& parameters, tensor::LinearKind kind)
    : ops_(parameters.ops()),
      kind_(kind),
      weight_(register_parameter("weight", parameters.make("weight"))),
      bias_(register_parameter("bias", parameters.make("bias"))) {}

at::Tensor Linear::forward(const at::Tensor& x) const {
  return ops_->linear(x, weight_, bias_, kind_);
}

Norm::Norm(const Parameters& parameters, double eps)
    : ops_(parameters.ops()),
      eps_(eps),
      weight_(register_parameter("weight", parameters.make("weight"))),
      bias_(register_parameter("bias", parameters.make("bias"))) {}

at::Tensor Norm::forward(const at::Tensor& x) const { return ops_->norm(x, weight_, bias_, eps_); }

Table::Table(const Parameters& parameters)
    : ops_(parameters.ops()), weight_(register_parameter("weight", parameters.make("weight"))) {}

at::Tensor Table::forward(const at::Tensor& ids) const { return ops_->embedding(ids, weight_); }

Attention::Attention(const Parameters& parameters, const GptConfig& config)
    : ops_(parameters.ops()),
      head_width_(config.head_width()),
      weights_site_(site_of(parameters.prefix() + "weights", config.dropout)),
      qkv_(register_module(
          "qkv", std::make_shared<Linear>(parameters.scope("qkv"), tensor::LinearKind::Expanding))),
      out_(register_module(
          "out",
          std::make_shared<Linear>(parameters.scope("out"), tensor::LinearKind::Contracting))) {
  const std::int64_t sharing = config.heads / config.kv_heads;
  kv_heads_ = qkv_->weight().size(0) / ((sharing + 2) * head_width_);
  heads_ = kv_heads_ * sharing;
}

at::Tensor Attention::forward(const at::Tensor& x,
                              const ForwardContext& context,
                              LayerCache* cache) const {
  const std::int64_t kv_width = kv_heads_ * head_width_;
  const auto parts =
      qkv_->forward(x).split_with_sizes({heads_ * head_width_, kv_width, kv_width}, 2);
  const at::Tensor q = as_heads(parts[0], heads_, head_width_);
  at::Tensor k = as_heads(parts[1], kv_heads_, head_width_);
  at::Tensor v = as_heads(parts[2], kv_heads_, head_width_);
  if (cache != nullptr) {
    extend(cache->keys, k);
    extend(cache->values, v);
  }
  const at::Tensor mixed = ops_->attention(q, k, v, weights_site_, context);
  return out_->forward(mixed.transpose(1, 2).reshape({x.size(0), x.size(1), heads_ * head_width_}));
}

FeedForward::FeedForward(const Parameters& parameters)
    : fc1_(register_module(
          "fc1", std::make_shared<Linear>(parameters.scope("fc1"), tensor::LinearKind::Expanding))),
      fc2_(register_module(
          "fc2",
          std::make_shared<Linear>(parameters.scope("fc2"), tensor::LinearKind::Contracting))) {}

at::Tensor FeedForward::forward(const at::Tensor& x) const {
  return fc2_->forward(at::gelu(fc1_->forward(x), "tanh"));
}

Block::Block(const Parameters& parameters, const GptConfig& config)
    : ops_(parameters.ops()),
      attention_site_(site_of(parameters.prefix() + "attention", config.dropout)),
      mlp_site_(site_of(parameters.prefix() + "mlp", config.dropout)),
      norm1_(register_module("norm1",
                             std::make_shared<Norm>(parameters.scope("norm1"), config.norm_eps))),
      attention_(register_module(
          "attention", std::make_shared<Attention>(parameters.scope("attention"), config))),
      norm2_(register_module("norm2",
                             std::make_shared<Norm>(parameters.scope("norm2"), config.norm_eps))),
      mlp_(register_module("mlp", std::make_shared<FeedForward>(parameters.scope("mlp")))) {}

at::Tensor Block::forward(const at::Tensor& x,
                          const ForwardContext& context,
                          LayerCache* cache) const {
  const at::Tensor attended = attention_->forward(norm1_->forward(x), context, cache);
  const at::Tensor middle = x + ops_->dropout(attended, attention_site_, context);
  return middle + ops_->dropout(mlp_->forward(norm2_->forward(middle)), mlp_site_, context);
}

}  // namespace lockstep::nn
