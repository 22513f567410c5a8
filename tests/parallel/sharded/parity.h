// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/optim/adamw.h>

#include "lockstep/base/text.h"
#include "lockstep/model/architectures.h"
#include "lockstep/nn/model.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/sharded/data_parallel.h"

#include "support/run_ranks.h"

namespace lockstep::test {

/// One cell of the parity matrix: the same global batch cut over ranks and micro steps, against one process with libtorch's
/// own AdamW that knows nothing of this project's engine or optimizer.
struct Parity {
  std::string model = "gpt";  ///< gpt | mlp
  int ranks = 2;
  int accumulation = 1;
  at::ScalarType type = at::kDouble;
  std::int64_t bucket_bytes = 25'000'000;
  int zero = 0;
};

inline std::string to_text(const Parity& p) {
  return cat(p.model,
             ", ",
             p.ranks,
             " ranks, accumulation ",
             p.accumulation,
             ", ",
             c10::toString(p.type),
             ", buckets of ",
             p.bucket_bytes,
             ", zero ",
             p.zero);
}

namespace parity {

constexpr std::int64_t kGlobal = 36;  // divisible by every number of ranks times accumulation
constexpr int kSteps = 20;
constexpr double kRate = 1e-3;

inline std::shared_ptr<nn::Model> build(const Parity& p) {
  const ModelSpec spec =
      p.model == "gpt" ? gpt_spec("small",
                                  {.layers = 2,
                                   .width = 12,
                                   .heads = 2,
                                   .kv_heads = 2,
                                   .ffn_width = 20,
                                   .vocab = 17,
                                   .context = 7,
                                   .dropout = 0.1})
                       : mlp_spec("small", {.layers = 3, .inputs = 5, .width = 9, .outputs = 4});
  return nn::build_model(spec, {.seed = 3, .dtype = p.type});
}

struct Batch {
  at::Tensor inputs, targets;
  ForwardContext context;
};

/// Samples [begin, end) of a step; some targets count for nothing, so ranks hold different counts.
inline Batch batch(const Parity& p, int step, std::int64_t begin, std::int64_t end) {
  Batch made;
  made.context = {.training = true, .seed = 11, .step = step};
  for (std::int64_t sample = begin; sample < end; ++sample)
    made.context.samples.push_back(sample);
  const at::Tensor rows = at::arange(begin, end, at::kLong).unsqueeze(1) + kGlobal * step;
  if (p.model == "gpt") {
    const at::Tensor ids = (rows * rows * 5 + at::arange(8, at::kLong) * (rows + 3)).remainder(17);
    made.inputs = ids.slice(1, 0, 7).contiguous();
    made.targets = ids.slice(1, 1, 8).clone();
    made.targets.masked_fill_(
        (rows + at::arange(7, at::kLong) * 2).remainder(5) < rows.remainder(3), -100);
  } else {
    made.inputs = (rows.to(p.type) * at::arange(1, 6, p.type)).sin();
    made.targets = (rows * 7).remainder(4).flatten().clone();
    made.targets.masked_fill_(rows.flatten().remainder(7) == 0, -100);
  }
  return made;
}

struct Run {
  std::vector<double> losses;  ///< mean over the global count
  std::map<std::string, at::Tensor> first_gradients, parameters;
};

inline std::map<std::string, at::Tensor> copies(
    const torch::nn::Module& model, const std::function<at::Tensor(const at::Tensor&)>& of) {
  std::map<std::string, at::Tensor> found;
  for (const auto& item : model.named_parameters())
    found[item.key()] = of(item.value()).detach().to(at::kDouble).clone();
  return found;
}

inline Run single_process(const Parity& p) {
  Run run;
  const auto model = build(p);
  torch::optim::AdamW optimizer(model->parameters(),
                                torch::optim::AdamWOptions(kRate).weight_decay(0.01));
  for (int step = 1; step <= kSteps; ++step) {
    const Batch all = batch(p, step, 0, kGlobal);
    const LossSum loss = model->loss(all.inputs, all.targets, all.context);
    (loss.sum / loss.count).backward();
    run.losses.push_back((loss.sum / loss.count).item<double>());
    if (step == 1)
      run.first_gradients = copies(*model, [](const at::Tensor& t) { return t.grad(); });
    optimizer.step();
    optimizer.zero_grad();
  }
  run.parameters = copies(*model, [](const at::Tensor& t) { return t; });
  return run;
}

/// The mean gradients, put together from the ranks' parts.
inline std::map<std::string, at::Tensor> gradients(const DataParallel& ddp) {
  std::map<std::string, at::Tensor> whole;
  for (const auto& [name, parameter] : ddp.parameters()) {
    const UpdateSlice mine = ddp.slice_of(name);
    const at::Tensor sum = at::zeros({parameter.numel()}, at::kDouble);
    if (ddp.zero() > 0 || ddp.group().rank().value == 0)
      sum.narrow(0, mine.begin, mine.gradient.numel()).copy_(mine.gradient);
    ddp.group().all_reduce(sum, ReduceOp::Sum, name).wait();
    whole[name] = sum.view(parameter.sizes()) * ddp.pending_scale();
  }
  return whole;
}

inline Run data_parallel(const Parity& p, World& world) {
  Run run;
  const auto model = build(p);
  DataParallel ddp(*model, world.all(), {.zero = p.zero, .bucket_bytes = p.bucket_bytes});
  const auto optimizer = optim::make_optimizer(ddp, {.lr = kRate, .weight_decay = 0.01});
  const std::int64_t micro = kGlobal / (p.ranks * p.accumulation);
  for (int step = 1; step <= kSteps; ++step) {
    double sum = 0, count = 0;
    for (int k = 0; k < p.accumulation; ++k) {
      std::optional<NoSync> local;
      if (k + 1 < p.accumulation)
        local.emplace(ddp.no_sync());
      const std::int64_t begin =
          (static_cast<std::int64_t>(k) * p.ranks + world.rank().value) * micro;
      const Batch mine = batch(p, step, begin, begin + micro);
      const LossSum loss = model->loss(mine.inputs, mine.targets, mine.context);
      ddp.backward(loss.sum, loss.count.item<std::int64_t>());
      sum += loss.sum.item<double>();
      count += loss.count.item<double>();
    }
    const at::Tensor totals = at::tensor({sum, count}, at::kDouble);
    world.all().all_reduce(totals, ReduceOp::Sum, "loss").wait();
    run.losses.push_back(totals[0].item<double>() / totals[1].item<double>());
    if (step == 1)
      run.first_gradients = gradients(ddp);
    optimizer->step();
    optimizer->zero_grad();
    ddp.check_in_sync();  // bit-equal over the ranks
  }
  run.parameters = copies(*model, [](const at::Tensor& t) { return t; });
  return run;
}

inline void expect_equal(const Run& run, const Run& oracle, const Parity& p) {
  const bool exact = p.type == at::kDouble;
  for (std::size_t step = 0; step < oracle.losses.size(); ++step) {
    EXPECT_NEAR(run.losses[step],
                oracle.losses[step],
                (exact ? 1e-10 : 1e-5) * std::abs(oracle.losses[step]))
        << "step " << step + 1;
  }
  double squares = 0, elements = 0;
  for (const auto& [name, gradient] : oracle.first_gradients) {
    squares += gradient.square().sum().item<double>();
    elements += static_cast<double>(gradient.numel());
  }
  const double rms = std::sqrt(squares / elements);
  for (const auto& [name, gradient] : oracle.first_gradients) {
    const double relative = exact ? 1e-10 : 1e-5;
    const at::Tensor excess =
        (run.first_gradients.at(name) - gradient).abs() - relative * (gradient.abs() + rms);
    EXPECT_LE(excess.max().item<double>(), 0) << "gradient of " << name;
  }
  for (const auto& [name, value] : oracle.parameters) {
    at::Tensor difference = (run.parameters.at(name) - value).abs();
    // The true gradient of the key bias is 0: in fp32 its noise is divided by eps.
    if (!exact && name.ends_with("attention.qkv.bias"))
      difference.slice(0, 12, 24).zero_();
    EXPECT_LE(difference.max().item<double>(), exact ? 1e-10 : 1e-4) << name;
  }
}

}  // namespace parity

inline void expect_parity(const Parity& p) {
  SCOPED_TRACE(to_text(p));
  const parity::Run oracle = parity::single_process(p);
  run_ranks(p.ranks, [&](World& world) {
    parity::expect_equal(parity::data_parallel(p, world), oracle, p);
  });
}

}  // namespace lockstep::test
