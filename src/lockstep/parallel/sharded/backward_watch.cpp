// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/backward_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep::sharded {

namespace {
using torch::autograd::variable_list;
using Accumulator =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

/// One outermost backward. Whoever may still end it holds it; when the last holder goes without an
/// end, it was abandoned.
struct Backward {
  std::weak_ptr<BackwardWatch::State> state;
  std::vector<int> queued_in;  // ids of the graph tasks that will call us at their end
  bool ended = false;
  ~Backward();
};
}  // namespace

struct BackwardWatch::State {
  BackwardListener* listener = nullptr;
  std::weak_ptr<Backward> current;
  struct Hooked {
    Accumulator accumulator;
    std::uintptr_t key = 0;
  };
  std::vector<Hooked> hooked;

  bool is_ours(const torch::autograd::Node* node) const {
    return std::ranges::any_of(hooked,
                               [&](const Hooked& hook) { return &*hook.accumulator == node; });
  }
};

namespace {

Backward::~Backward() {
  if (ended)
    return;
  if (const auto alive = state.lock())
    alive->listener->backward_abandoned();
}

void queue_end(const std::shared_ptr<Backward>& backward);

/// Queues the end in the outer task, from the first node that it evaluates after the one that ran
/// the inner task.
struct QueueInOuterTask : torch::autograd::FunctionPreHook {
  explicit QueueInOuterTask(std::shared_ptr<Backward> of) : backward(std::move(of)) {}
  variable_list operator()(const variable_list& gradients) override {
    if (backward && !backward->ended)
      queue_end(backward);
    backward.reset();
    return gradients;
  }
  std::shared_ptr<Backward> backward;  // shared with the callbacks that may end it
};

void task_ended(const std::shared_ptr<Backward>& backward) {
  if (backward->ended)
    return;
  const auto state = backward->state.lock();
  if (!state)
    return;
  if (const auto outer = torch::autograd::get_current_node()) {
    for (const auto& edge : outer->next_edges()) {
      if (edge.is_valid() && !state->is_ours(&*edge.function)) {
        edge.function->add_pre_hook(std::make_unique<QueueInOuterTask>(backward));
      }
    }
    return;
  }
  backward->ended = true;
  state->current.reset();
  state->listener->backward_ended();
}

void queue_end(const std::shared_ptr<Backward>& backward) {
  const int task = torch::autograd::get_current_graph_task_id();
  if (std::ranges::find(backward->queued_in, task) != backward->queued_in.end())
    return;
  backward->queued_in.push_back(task);
  torch::autograd::Engine::get_default_engine().queue_callback(
      [backward] { task_ended(backward); });
}

struct GradientArrived : torch::autograd::FunctionPostHook {
  GradientArrived(std::weak_ptr<BackwardWatch::State> of, int parameter)
      : state(std::move(of)), number(parameter) {}
  variable_list operator()(const variable_list& outputs, const variable_list& inputs) override {
    const auto alive = state.lock();
    if (!alive)
      return outputs;
    auto backward = alive->current.lock();
    const bool begins = !backward;
    if (begins) {
      backward = std::make_shared<Backward>();
      backward->state = state;
      alive->current = backward;
    }
    queue_end(backward);
    if (begins)
      alive->listener->backward_began(number);
    const bool defined =
        std::ranges::any_of(inputs, [](const at::Tensor& gradient) { return gradient.defined(); });
    if (defined)
      alive->listener->gradient_arrived(number);
    return outputs;
  }
  std::weak_ptr<BackwardWatch::State> state;
  int number;
};

}  // namespace

BackwardWatch::BackwardWatch(BackwardListener& listener) : state_(std::make_shared<State>()) {
  state_->listener = &listener;
}

BackwardWatch::~BackwardWatch() {
  for (State::Hooked& hook : state_->hooked)
    hook.accumulator->del_post_hook(hook.key);
}

void BackwardWatch::watch(int number, const at::Tensor& parameter) {
  if (!parameter.is_floating_point() && !parameter.is_complex())
    return;
  const bool frozen = !parameter.requires_grad();
  if (frozen)
    parameter.set_requires_grad(
        true);  // only then it has an accumulator, which stays while we hold it
  State::Hooked hook{torch::autograd::impl::grad_accumulator(parameter)};
  if (frozen)
    parameter.set_requires_grad(false);
  hook.key = hook.accumulator->add_post_hook(std::make_unique<GradientArrived>(state_, number));
  state_->hooked.push_back(std::move(hook));
}

}  // namespace lockstep::sharded
