// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/stepper.h"

#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/pure/gloo_traffic.h"
#include "lockstep/comm/pure/recorder.h"
#include "lockstep/data/pure/token_file.h"
#include "lockstep/train/detail/peak_memory.h"

namespace lockstep::train {
namespace {

using Clock = Trace::Clock;

double ms_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

/// Places in the exchanged numbers.
enum Slot : std::int64_t { kLossSum = 0, kCount = 1, kWishes = 2, kFirstOfRanks = 3 };

[[noreturn]] void refuse_loss(std::int64_t step, const std::vector<int>& ranks) {
  throw Error({.fault = Fault::Numeric,
               .where = {.operation = cat("step ", step)},
               .problem = cat("the loss of rank ",
                              join(ranks, ", "),
                              " is not finite; no parameter was changed in this step"),
               .next = "Lower optimizer.lr, set optimizer.clip or look at that rank's data; "
                       "--resume goes on from the last checkpoint"});
}

}  // namespace

struct Stepper::Local {
  double loss_sum = 0;
  std::int64_t count = 0;
  bool is_finite = true;
  double data_ms = 0, forward_ms = 0, backward_ms = 0;
  SamplerState after;
};

Stepper::Stepper(StepParts parts) : parts_(std::move(parts)) {}

std::optional<Stepper::Local> Stepper::forward_backward(std::int64_t step) {
  Local local;
  DataParallel& engine = *parts_.assembly.engine;
  const std::int64_t n = engine.group().size();
  for (bool is_last = false; !is_last;) {
    const auto t0 = Clock::now();
    parts_.world.phase("loading data");
    const std::optional<Batch> batch = parts_.loader.next();
    if (!batch)
      return std::nullopt;
    is_last = batch->micro_batch + 1 == batch->num_micro_batches;
    local.after = batch->after;
    ForwardContext context{.training = true, .seed = parts_.seed, .step = step};
    const auto rows = static_cast<std::int64_t>(batch->ids.size());
    const std::int64_t leaf = batch->micro_batch * n + engine.group().rank().value;
    for (std::int64_t i = 0; i < rows;
         ++i) {  // the place in the step: the same for any number of ranks
      context.samples.push_back(leaf * rows + i);
    }
    const auto t1 = Clock::now();
    parts_.world.phase("forward");
    const LossSum loss =
        parts_.assembly.model->loss(batch->examples.inputs, batch->examples.targets, context);
    const double sum = loss.sum.item<double>();
    const auto count = loss.count.item<std::int64_t>();
    const auto t2 = Clock::now();
    parts_.world.phase("backward");
    {
      std::optional<NoSync> held;
      if (!is_last)
        held.emplace(engine.no_sync());
      engine.backward(loss.sum, count);
    }
    const auto t3 = Clock::now();
    parts_.trace.add("data", "data", "main", t0, t1);
    parts_.trace.add("forward", "forward", "main", t1, t2);
    parts_.trace.add("backward", "backward", "main", t2, t3);
    local.loss_sum += sum;
    local.count += count;
    local.is_finite = local.is_finite && std::isfinite(sum);
    local.data_ms += ms_between(t0, t1);
    local.forward_ms += ms_between(t1, t2);
    local.backward_ms += ms_between(t2, t3);
  }
  return local;
}

StepOutcome Stepper::exchange(std::int64_t step,
                              const Local& local,
                              const CommTotals& before,
                              Wish mine) {
  const Group group = parts_.world.all();
  const std::int64_t n = group.size();
  const std::int64_t rank = group.rank().value;
  const std::int64_t sent = parts_.world.recorder().totals().sent_bytes - before.sent_bytes;
  const at::Tensor figures = at::zeros({kFirstOfRanks + 3 * n}, at::kDouble);
  auto* values = figures.data_ptr<double>();
  values[kLossSum] = local.is_finite ? local.loss_sum : 0;
  values[kCount] = static_cast<double>(local.count);
  values[kWishes] = mine == Wish::StopAfterStep ? 1 : 0;
  values[kFirstOfRanks + rank] = local.is_finite ? 0 : 1;
  values[kFirstOfRanks + n + rank] = static_cast<double>(sent);
  values[kFirstOfRanks + 2 * n + rank] = static_cast<double>(peak_memory_bytes());
  group.all_reduce(figures, ReduceOp::Sum, "figures of the step").wait();

  // What carries the figures cannot be among them, but everybody can tell what it cost each rank.
  const CallDescription exchanged{.operation = Operation::AllReduce,
                                  .shape = {figures.numel()},
                                  .element_bytes = static_cast<std::int64_t>(sizeof(double))};
  StepOutcome outcome;
  std::vector<int> not_finite;
  for (std::int64_t r = 0; r < n; ++r) {
    if (values[kFirstOfRanks + r] > 0)
      not_finite.push_back(static_cast<int>(r));
    outcome.metrics.sent_bytes.push_back(
        static_cast<std::int64_t>(values[kFirstOfRanks + n + r]) +
        gloo_sent_bytes(exchanged, static_cast<int>(r), static_cast<int>(n)));
    outcome.metrics.peak_memory_bytes.push_back(
        static_cast<std::int64_t>(values[kFirstOfRanks + 2 * n + r]));
  }
  if (!not_finite.empty())
    refuse_loss(step, not_finite);
  outcome.metrics.loss = values[kLossSum] / values[kCount];
  outcome.metrics.step_tokens = static_cast<std::int64_t>(values[kCount]);
  outcome.agreed = values[kWishes] > 0 ? Wish::StopAfterStep : Wish::GoOn;
  return outcome;
}

std::optional<StepOutcome> Stepper::run(std::int64_t step, Wish mine) {
  const auto begin = Clock::now();
  const CommTotals before = parts_.world.recorder().totals();
  const std::optional<Local> local = forward_backward(step);
  if (!local)
    return std::nullopt;
  const auto before_exchange = Clock::now();
  StepOutcome outcome = exchange(step, *local, before, mine);
  outcome.after = local->after;
  const auto before_update = Clock::now();
  parts_.world.phase("optimizer");
  const double lr = parts_.schedule.at(step);
  const auto result = parts_.assembly.optimizer->step(parts_.schedule.factor(step));
  parts_.assembly.optimizer->zero_grad();
  const auto end = Clock::now();
  parts_.trace.add("figures of the step", "comm", "main", before_exchange, before_update);
  parts_.trace.add("optimizer", "optimizer", "main", before_update, end);
  parts_.trace.add(cat("step ", step), "step", "step", begin, end);

  StepMetrics& metrics = outcome.metrics;
  metrics.step = step;
  metrics.grad_norm = result.grad_norm;
  metrics.lr = lr;
  metrics.step_ms = ms_between(begin, end);
  metrics.tokens_per_second = static_cast<double>(metrics.step_tokens) / (metrics.step_ms / 1000);
  metrics.data_ms = local->data_ms;
  metrics.forward_ms = local->forward_ms;
  metrics.backward_ms = local->backward_ms;
  metrics.optimizer_ms = ms_between(before_update, end);
  metrics.exposed_comm_ms = parts_.world.recorder().totals().exposed_ms - before.exposed_ms;
  return outcome;
}

double evaluate(const World& world,
                strategy::Assembly& assembly,
                std::shared_ptr<const TokenSequences> data,
                std::int64_t micro) {
  world.phase("evaluation");
  assembly.engine->sync_buffers();
  const at::NoGradGuard no_gradients;
  const Group group = world.all();
  const SamplerOptions order{
      .num_samples = data->size(), .order = Order::Sequential, .tail = Tail::Once, .num_epochs = 1};
  const Dealing dealing{
      .rank = group.rank().value, .num_ranks = group.size(), .micro = micro, .accumulation = 1};
  DataLoader loader(token_dataset(data), DistributedSampler(order, dealing));
  double sum = 0;
  std::int64_t count = 0;
  while (const auto batch = loader.next()) {
    if (batch->ids.empty())
      continue;
    const LossSum loss =
        assembly.model->loss(batch->examples.inputs, batch->examples.targets, {.training = false});
    sum += loss.sum.item<double>();
    count += loss.count.item<std::int64_t>();
  }
  const at::Tensor totals = at::zeros({2}, at::kDouble);
  totals.data_ptr<double>()[0] = sum;
  totals.data_ptr<double>()[1] = static_cast<double>(count);
  group.all_reduce(totals, ReduceOp::Sum, "evaluation loss").wait();
  return totals.data_ptr<double>()[0] / totals.data_ptr<double>()[1];
}

}  // namespace lockstep::train
