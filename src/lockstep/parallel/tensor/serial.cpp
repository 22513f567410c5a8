// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/parallel/tensor/ops.h"

namespace lockstep::tensor {
namespace {

/// true where query s of the last S of P positions may look at key p.
at::Tensor causal_mask(std::int64_t queries, std::int64_t keys, at::Device device) {
  return at::ones({queries, keys}, at::TensorOptions().dtype(at::kBool).device(device))
      .tril(keys - queries);
}

at::Tensor fused_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  if (q.size(2) == k.size(2)) {
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
  }
  if (q.size(2) == 1) {
    return at::scaled_dot_product_attention(q, k, v);
  }
  return at::scaled_dot_product_attention(q, k, v, causal_mask(q.size(2), k.size(2), q.device()));
}

at::Tensor explicit_attention(const at::Tensor& q,
                              const at::Tensor& k,
                              const at::Tensor& v,
                              const DropoutSite& site,
                              const ForwardContext& context) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  at::Tensor scores = at::matmul(q * scale, k.transpose(2, 3));
  scores.masked_fill_(causal_mask(q.size(2), k.size(2), q.device()).logical_not(),
                      -std::numeric_limits<double>::infinity());
  return at::matmul(dropout(scores.softmax(-1), site, context), v);
}

class Serial final : public Ops {
 public:
  at::Tensor linear(const at::Tensor& x,
                    const at::Tensor& weight,
                    const at::Tensor& bias,
                    LinearKind) const override {
    return tensor::linear(x, weight, bias);
  }

  at::Tensor embedding(const at::Tensor& ids, const at::Tensor& weight) const override {
    if (ids.device().is_cpu() && ids.numel() > 0) {
      const auto [least, most] = ids.aminmax();
      const std::int64_t low = least.item<std::int64_t>();
      const std::int64_t high = most.item<std::int64_t>();
      if (low < 0 || high >= weight.size(0)) {
        throw Error({.fault = Fault::Usage,
                     .where = {.operation = "embedding"},
                     .problem = "a token is outside the vocabulary",
                     .expected = cat("0 to ", weight.size(0) - 1),
                     .found = cat(low < 0 ? low : high),
                     .next = "Check the model's vocabulary against the tokens of the data"});
      }
    }
    return at::embedding(weight, ids);
  }

  at::Tensor norm(const at::Tensor& x,
                  const at::Tensor& weight,
                  const at::Tensor& bias,
                  double eps) const override {
    return at::layer_norm(x, weight.sizes(), weight, bias, eps);
  }

  at::Tensor attention(const at::Tensor& q,
                       const at::Tensor& k,
                       const at::Tensor& v,
                       const DropoutSite& site,
                       const ForwardContext& context) const override {
    const std::int64_t shared_by = q.size(1) / k.size(1);
    const at::Tensor keys = shared_by == 1 ? k : k.repeat_interleave(shared_by, 1);
    const at::Tensor values = shared_by == 1 ? v : v.repeat_interleave(shared_by, 1);
    if (context.training && site.rate > 0.0) {
      return explicit_attention(q, keys, values, site, context);
    }
    return fused_attention(q, keys, values);
  }

  at::Tensor dropout(const at::Tensor& x,
                     const DropoutSite& site,
                     const ForwardContext& context) const override {
    return tensor::dropout(x, site, context);
  }

  LossSum loss(const at::Tensor& x,
               const at::Tensor& weight,
               const at::Tensor& targets,
               const LossOptions& options) const override {
    return chunked_cross_entropy(x, weight, targets, options);
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  return bias.defined() ? at::linear(x, weight, bias) : at::linear(x, weight);
}

std::shared_ptr<const Ops> serial() { return std::make_shared<Serial>(); }

}  // namespace lockstep::tensor
