// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "lockstep/nn/parameters.h"

/// The modules that models are made of; all arithmetic is tensor::Ops. Legend: B batch, T tokens, C
/// width, H heads, K key/value heads, D head width, F hidden width, V vocabulary.
namespace lockstep::nn {

/// y = x weight^T + bias
class Linear : public torch::nn::Module {
 public:
  Linear(const Parameters& parameters, tensor::LinearKind kind);
  at::Tensor forward(const at::Tensor& x) const;
  const at::Tensor& weight() const { return weight_; }

 private:
  std::shared_ptr<const tensor::Ops> ops_;  // shared by all modules
  tensor::LinearKind kind_;
  at::Tensor weight_;
  at::Tensor bias_;
};

class Norm : public torch::nn::Module {
 public:
  Norm(const Parameters& parameters, double eps);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  std::shared_ptr<const tensor::Ops> ops_;  // shared by all modules
  double eps_;
  at::Tensor weight_;
  at::Tensor bias_;
};

/// Rows of a table.
class Table : public torch::nn::Module {
 public:
  explicit Table(const Parameters& parameters);
  at::Tensor forward(const at::Tensor& ids) const;
  const at::Tensor& weight() const { return weight_; }

 private:
  std::shared_ptr<const tensor::Ops> ops_;  // shared by all modules
  at::Tensor weight_;
};

/// Keys and values of the tokens a layer has seen, [B, K, P, D]. For generation.
struct LayerCache {
  at::Tensor keys;
  at::Tensor values;
};

/// Causal self-attention with fused q|k|v.
class Attention : public torch::nn::Module {
 public:
  Attention(const Parameters& parameters, const GptConfig& config);
  /// x [B, T, C]. With a cache the T tokens come after those it holds, and it holds them after.
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context, LayerCache* cache) const;

 private:
  std::shared_ptr<const tensor::Ops> ops_;  // shared by all modules
  std::int64_t head_width_;
  std::int64_t heads_;     ///< of the part held here
  std::int64_t kv_heads_;  ///< of the part held here
  tensor::DropoutSite weights_site_;
  std::shared_ptr<Linear> qkv_;  // shared with the module tree
  std::shared_ptr<Linear> out_;  // shared with the module tree
};

/// fc2(gelu(fc1(x)))
class FeedForward : public torch::nn::Module {
 public:
  explicit FeedForward(const Parameters& parameters);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  std::shared_ptr<Linear> fc1_;  // shared with the module tree
  std::shared_ptr<Linear> fc2_;  // shared with the module tree
};

/// x + attention(norm1(x)), then x + mlp(norm2(x)), dropout on both branches.
class Block : public torch::nn::Module {
 public:
  Block(const Parameters& parameters, const GptConfig& config);
  at::Tensor forward(const at::Tensor& x, const ForwardContext& context, LayerCache* cache) const;

 private:
  std::shared_ptr<const tensor::Ops> ops_;  // shared by all modules
  tensor::DropoutSite attention_site_;
  tensor::DropoutSite mlp_site_;
  std::shared_ptr<Norm> norm1_;  // these four are shared with the module tree
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Norm> norm2_;
  std::shared_ptr<FeedForward> mlp_;
};

}  // namespace lockstep::nn
