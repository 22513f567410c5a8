// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

namespace lockstep::sharded {

/// What happens in a backward, told on the thread where autograd runs.
class BackwardListener {
 public:
  virtual ~BackwardListener() = default;
  /// Comes before the first gradient_arrived, of this same parameter, whose gradient is there
  /// already.
  virtual void backward_began(int first_parameter) = 0;
  /// A gradient was added to the parameter's grad. Once a use and backward at least; more often
  /// under recomputation.
  virtual void gradient_arrived(int parameter) = 0;
  /// The outermost backward is over; nothing more arrives. May throw: the error leaves through the
  /// user's backward().
  virtual void backward_ended() = 0;
  /// Backward ended by an error.
  virtual void backward_abandoned() = 0;
};

/// Watches backwards by hooks on the gradient accumulators of parameters, whoever called backward
/// and on whatever loss.
///
/// Trap      A recomputed block runs a backward of its own inside the outer one, and autograd's
///           end-of-backward callback belongs to the task that is running. At the end of an inner
///           task the node being evaluated is the outer one's: its successors then get a hook that
///           queues the callback in the outer task.
class BackwardWatch {
 public:
  explicit BackwardWatch(BackwardListener& listener);
  ~BackwardWatch();
  BackwardWatch(const BackwardWatch&) = delete;
  BackwardWatch& operator=(const BackwardWatch&) = delete;

  /// Works for frozen parameters too: their hook fires once they are trained.
  void watch(int number, const at::Tensor& parameter);

  struct State;

 private:
  std::shared_ptr<State> state_;  // hooks that outlive this object hold it weakly
};

}  // namespace lockstep::sharded
