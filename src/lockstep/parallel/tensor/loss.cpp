// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/tensor/loss.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::tensor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::ScalarType sum_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

struct Rows {
  std::int64_t begin;
  std::int64_t count;
};

/// Works through the rows; holds the buffers that chunks share.
class ChunkLoop {
 public:
  ChunkLoop(const at::Tensor& x,
            const at::Tensor& weight,
            const at::Tensor& targets,
            const LossOptions& options)
      : x_(x),
        weight_(weight),
        targets_(targets),
        options_(options),
        sum_(at::zeros({}, x.options().dtype(at::kDouble))) {}

  void keep_gradients(bool of_x, bool of_weight) {
    if (of_x) {
      grad_x_ = at::empty_like(x_);
    }
    if (of_weight) {
      grad_weight_ = at::zeros(weight_.sizes(), weight_.options().dtype(sum_type(x_)));
    }
  }

  void run(std::int64_t chunk_rows) {
    for (std::int64_t begin = 0; begin < x_.size(0); begin += chunk_rows) {
      add({.begin = begin, .count = std::min(chunk_rows, x_.size(0) - begin)});
    }
  }

  at::Tensor sum() const { return sum_.to(sum_type(x_)); }
  at::Tensor grad_x() const { return grad_x_; }
  at::Tensor grad_weight() const {
    return grad_weight_.defined() ? grad_weight_.to(weight_.scalar_type()) : grad_weight_;
  }

 private:
  void add(Rows rows) {
    const at::Tensor x = x_.narrow(0, rows.begin, rows.count);
    const at::Tensor target = targets_.narrow(0, rows.begin, rows.count);
    const at::Tensor counted = target.ne(options_.ignore_index);
    const at::Tensor index = target.masked_fill(counted.logical_not(), 0).unsqueeze(1);
    at::Tensor log_p = at::log_softmax(at::mm(x, weight_.t()), 1, sum_type(x_));
    add_loss(log_p, index, counted);
    if (grad_x_.defined() || grad_weight_.defined()) {
      add_gradient(x, to_gradient(log_p, index, counted), rows);
    }
  }

  void add_loss(const at::Tensor& log_p, const at::Tensor& index, const at::Tensor& counted) {
    at::Tensor loss = log_p.gather(1, index).squeeze(1).neg_();
    if (options_.label_smoothing != 0.0) {
      loss = loss * (1.0 - options_.label_smoothing) - log_p.mean(1) * options_.label_smoothing;
    }
    sum_ += loss.masked_fill_(counted.logical_not(), 0).sum(at::kDouble);
  }

  /// d loss / d logits of the chunk, in the place of its log-probabilities: p - target, 0 in
  /// ignored rows.
  at::Tensor to_gradient(at::Tensor& log_p,
                         const at::Tensor& index,
                         const at::Tensor& counted) const {
    const double smoothing = options_.label_smoothing;
    at::Tensor& gradient = log_p.exp_();
    if (smoothing != 0.0) {
      gradient.sub_(smoothing / static_cast<double>(weight_.size(0)));
    }
    gradient.scatter_add_(
        1, index, at::full({1, 1}, smoothing - 1.0, gradient.options()).expand_as(index));
    gradient.masked_fill_(counted.logical_not().unsqueeze(1), 0);
    return gradient.to(x_.scalar_type());
  }

  void add_gradient(const at::Tensor& x, const at::Tensor& gradient, Rows rows) {
    if (grad_x_.defined()) {
      at::Tensor out = grad_x_.narrow(0, rows.begin, rows.count);
      at::mm_out(out, gradient, weight_);
    }
    if (!grad_weight_.defined()) {
      return;
    }
    if (grad_weight_.scalar_type() == x.scalar_type()) {
      grad_weight_.addmm_(gradient.t(), x);
    } else {
      grad_weight_.add_(at::mm(gradient.t(), x));
    }
  }

  const at::Tensor& x_;
  const at::Tensor& weight_;
  const at::Tensor& targets_;
  const LossOptions& options_;
  at::Tensor sum_;
  at::Tensor grad_x_;
  at::Tensor grad_weight_;
};

struct ChunkedLoss : torch::autograd::Function<ChunkedLoss> {
  static at::Tensor forward(AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& weight,
                            const at::Tensor& targets,
                            const LossOptions& options,
                            bool with_gradients) {
    ChunkLoop loop(x, weight, targets, options);
    if (with_gradients) {
      loop.keep_gradients(x.requires_grad(), weight.requires_grad());
    }
    loop.run(options.chunk_rows);
    context->saved_data["x"] = loop.grad_x();
    context->saved_data["weight"] = loop.grad_weight();
    return loop.sum();
  }

  static variable_list backward(AutogradContext* context, const variable_list& grads) {
    if (at::GradMode::is_enabled()) {
      throw Error({.fault = Fault::Usage,
                   .where = {.operation = "chunked_cross_entropy"},
                   .problem = "its gradient has no gradient",
                   .next = "Call backward without create_graph"});
    }
    const auto scaled = [&](const char* name) {
      const at::Tensor gradient = context->saved_data[name].toTensor();
      return gradient.defined() ? gradient * grads[0].to(gradient.scalar_type()) : gradient;
    };
    return {scaled("x"), scaled("weight"), {}, {}, {}};
  }
};

[[noreturn]] void refuse(const std::string& problem,
                         const std::string& expected,
                         const std::string& found) {
  throw Error({.fault = Fault::Usage,
               .where = {.operation = "chunked_cross_entropy"},
               .problem = problem,
               .expected = expected,
               .found = found,
               .next = "Check the model's vocabulary against the tokens of the data"});
}

void check_targets(const at::Tensor& targets, std::int64_t vocab, std::int64_t ignore_index) {
  if (!targets.device().is_cpu() || targets.numel() == 0) {
    return;  // a device checks indices in its own kernels, without a wait
  }
  const at::Tensor real = targets.masked_fill(targets.eq(ignore_index), 0);
  const auto [least, most] = real.aminmax();
  const std::int64_t low = least.item<std::int64_t>();
  const std::int64_t high = most.item<std::int64_t>();
  if (low < 0 || high >= vocab) {
    refuse(
        "a target is outside the vocabulary", cat("0 to ", vocab - 1), cat(low < 0 ? low : high));
  }
}

std::int64_t default_chunk(std::int64_t vocab) {
  constexpr std::int64_t kRows = 256;
  constexpr std::int64_t kLogits = std::int64_t{1} << 18;
  return std::max(kRows, kLogits / std::max<std::int64_t>(vocab, 1));
}

}  // namespace

LossSum chunked_cross_entropy(const at::Tensor& x,
                              const at::Tensor& weight,
                              const at::Tensor& targets,
                              const LossOptions& options) {
  if (x.dim() < 2 || weight.dim() != 2 || x.size(-1) != weight.size(1) ||
      x.numel() / std::max<std::int64_t>(x.size(-1), 1) != targets.numel()) {
    refuse("the shapes do not fit",
           cat("x [N, C], weight [V, C], ", targets.numel(), " targets for N"),
           cat("x of ",
               x.numel(),
               " elements with last size ",
               x.size(-1),
               ", weight of ",
               weight.numel()));
  }
  check_targets(targets, weight.size(0), options.ignore_index);
  LossOptions filled = options;
  if (filled.chunk_rows <= 0) {
    filled.chunk_rows = default_chunk(weight.size(0));
  }
  const at::Tensor rows = x.reshape({-1, x.size(-1)});
  const at::Tensor flat = targets.reshape({-1});
  return {.sum = ChunkedLoss::apply(rows, weight, flat, filled, at::GradMode::is_enabled()),
          .count = flat.ne(options.ignore_index).sum()};
}

}  // namespace lockstep::tensor
