// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/base/torch_fwd.h"
#include "lockstep/parallel/tensor/dropout.h"
#include "lockstep/parallel/tensor/forward_context.h"
#include "lockstep/parallel/tensor/loss.h"

namespace lockstep::tensor {

/// x weight^T + bias over the last dim; x [..., in], weight [out, in], bias [out] or undefined.
/// The only matrix product of a model with its parameters (the loss's product with the head beside
/// it).
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

/// What a linear layer may do with the feature dims when a model is spread over ranks.
enum class LinearKind {
  Expanding,  ///< whole input, output may be spread over its features: q|k|v, first half of an MLP
  Contracting,  ///< input as an expanding layer left it, whole output: attention's output, second
                ///< half of an MLP
  Whole,        ///< neither
};

/// The operators a model is written with. A model never mentions ranks: what it holds may be a part
/// (fewer heads, fewer hidden features, fewer vocabulary rows), and these operators make the parts
/// act as the whole. Legend: B batch, S tokens here, P tokens in the keys (P >= S), C width, H
/// heads, K key/value heads, D head width, V vocabulary; H, K, V may be local.
/// Serial, one rank
/// that holds everything, is the first implementation.
class Ops {
 public:
  virtual ~Ops() = default;

  virtual at::Tensor linear(const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& bias,
                            LinearKind kind) const = 0;

  /// Rows of `weight` [V, C] for ids [B, S] int64.
  /// Throws Usage for an id outside the vocabulary,
  /// which it names.
  virtual at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight) const = 0;

  /// Layer normalisation over the last dim.
  virtual at::Tensor norm(const at::Tensor& x,
                          const at::Tensor& weight,
                          const at::Tensor& bias,
                          double eps) const = 0;

  /// Causal attention: q [B, H, S, D] are the last S positions of k, v [B, K, P, D]; H is a
  /// multiple of K. Result [B, H, S, D]. Fused where the site does not drop; else the weights [B,
  /// H, S, P] exist.
  virtual at::Tensor attention(const at::Tensor& q,
                               const at::Tensor& k,
                               const at::Tensor& v,
                               const DropoutSite& site,
                               const ForwardContext& context) const = 0;

  virtual at::Tensor dropout(const at::Tensor& x,
                             const DropoutSite& site,
                             const ForwardContext& context) const = 0;

  /// Next-token loss against the head's weight [V, C], in chunks.
  virtual LossSum loss(const at::Tensor& x,
                       const at::Tensor& weight,
                       const at::Tensor& targets,
                       const LossOptions& options) const = 0;
};

/// One rank holds everything.
std::shared_ptr<const Ops> serial();

}  // namespace lockstep::tensor
