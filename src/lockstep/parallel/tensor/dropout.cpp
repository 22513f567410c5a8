// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/tensor/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/parallel/tensor/pure/keep_mask.h"

namespace lockstep::tensor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct MaskPlan {
  DropoutSite site;
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::vector<std::int64_t> samples;
};

template <typename T>
void fill_mask(T* out, std::int64_t per_sample, const MaskPlan& plan) {
  const std::uint32_t threshold = drop_threshold(plan.site.rate);
  const T kept = static_cast<T>(1.0 / (1.0 - plan.site.rate));
  const auto samples = static_cast<std::int64_t>(plan.samples.size());
  at::parallel_for(0, samples, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const MaskSource source{.seed = plan.seed,
                              .site = plan.site.id,
                              .step = plan.step,
                              .sample = plan.samples[static_cast<std::size_t>(row)]};
      const std::span<T> part(out + row * per_sample, static_cast<std::size_t>(per_sample));
      fill_keep_mask(part, 0, source, threshold, kept);
    }
  });
}

/// 0 or 1 / (1 - rate) for each element of a tensor like `like`; computed in fp64 for fp64 and in
/// fp32 else.
at::Tensor make_mask(const at::Tensor& like, const MaskPlan& plan) {
  const bool wide = like.scalar_type() == at::kDouble;
  const auto options = like.options().dtype(wide ? at::kDouble : at::kFloat).device(at::kCPU);
  const at::Tensor mask = at::empty(like.sizes(), options);
  const std::int64_t per_sample =
      plan.samples.empty() ? 0 : mask.numel() / static_cast<std::int64_t>(plan.samples.size());
  if (wide) {
    fill_mask(mask.data_ptr<double>(), per_sample, plan);
  } else {
    fill_mask(mask.data_ptr<float>(), per_sample, plan);
  }
  return mask.to(like.options());
}

struct CounterDropout : torch::autograd::Function<CounterDropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const MaskPlan& plan) {
    context->saved_data["site"] = static_cast<std::int64_t>(plan.site.id);
    context->saved_data["rate"] = plan.site.rate;
    context->saved_data["seed"] = static_cast<std::int64_t>(plan.seed);
    context->saved_data["step"] = plan.step;
    context->saved_data["samples"] = plan.samples;
    return x * make_mask(x, plan);
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    auto& saved = context->saved_data;
    const MaskPlan plan{.site = {.id = static_cast<std::uint64_t>(saved["site"].toInt()),
                                 .rate = saved["rate"].toDouble()},
                        .seed = static_cast<std::uint64_t>(saved["seed"].toInt()),
                        .step = saved["step"].toInt(),
                        .samples = saved["samples"].toIntVector()};
    return {grads[0] * make_mask(grads[0], plan), at::Tensor()};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, const DropoutSite& site, const ForwardContext& context) {
  if (!context.training || site.rate == 0.0) {
    return x;
  }
  if (x.dim() == 0 || static_cast<std::int64_t>(context.samples.size()) != x.size(0)) {
    throw Error({.fault = Fault::Usage,
                 .where = {.operation = "dropout"},
                 .problem = "the forward context has not one sample id for each row",
                 .expected = cat(x.dim() == 0 ? 0 : x.size(0), " ids"),
                 .found = cat(context.samples.size()),
                 .next = "Fill ForwardContext::samples with the ids of the batch"});
  }
  return CounterDropout::apply(
      x,
      MaskPlan{
          .site = site, .seed = context.seed, .step = context.step, .samples = context.samples});
}

}  // namespace lockstep::tensor
