// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/optim/pure/groups.h"
#include "lockstep/parallel/sharded/data_parallel.h"

namespace torch::optim {
class Optimizer;
}

namespace lockstep::optim {

/// Defaults are AdamW's. SGD takes lr, momentum, nesterov and weight_decay (added to the gradient,
/// not decoupled).
struct OptimizerOptions {
  std::string name = "adamw";  ///< adamw | sgd
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double momentum = 0;
  enum class Momentum { Classic, Nesterov } momentum_kind = Momentum::Classic;
  double clip = 0;  ///< largest norm of the whole gradient; 0 does not clip
  std::vector<GroupOptions> groups;
};

/// What a step did. `grad_norm` is that of the true mean gradient before clipping, the same on
/// every rank.
struct StepResult {
  double grad_norm = 0;
  double clip_factor = 1;
};

/// State that this rank holds of one parameter: elements [begin, begin + tensor.numel()) of
/// `shape`, row-major. A live view: what is copied into it the next step uses.
struct NamedState {
  std::string name;   ///< "exp_avg.<parameter>", "exp_avg_sq.<parameter>", "momentum.<parameter>"
  at::Tensor tensor;  ///< in the parameter's shape where it is whole, else a row
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;
  bool is_whole() const { return tensor.sizes() == at::IntArrayRef(shape); }
};

/// Updates the parameters of a DataParallel engine in its flat buffers.
///
/// Step     norm (fp64, in the order of the parameters) -> factor of clipping -> fused kernel with
///          scale and factor folded in. A parameter without gradient on every rank is left out: no
///          decay, no momentum, its step counter stays.
/// State    keyed by parameter name, made at the first gradient; step counters are per parameter.
/// Cost     one pass over the gradients for the norm, one over gradients, parameters and state;
///          memory: 2 (AdamW) or 1 (SGD with momentum) elements a trained element.
/// Errors   Numeric, on every rank alike: the norm is not finite; parameters, state and counters
///          are unchanged. Config: unknown name (the nearest is told), values out of range, a group
///          that matches nothing.
/// Source   Loshchilov and Hutter 2019 (AdamW); the kernels are libtorch's _fused_adamw_ and
///          _fused_sgd_.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// One update; `lr_factor` multiplies every group's lr (from LrSchedule: at(step) / base).
  virtual StepResult step(double lr_factor = 1) = 0;
  virtual void zero_grad() = 0;

  /// State of every parameter that has been stepped.
  virtual std::vector<NamedState> state() = 0;
  /// Makes (zeroed) state for a parameter that has none yet, so that a checkpoint can be copied
  /// into state().
  virtual void make_state(std::string_view parameter) = 0;
  virtual std::map<std::string, std::int64_t> step_counts() const = 0;
  virtual void set_step_counts(const std::map<std::string, std::int64_t>& counts) = 0;
  /// Learning rate of a parameter at factor 1.
  virtual double lr_of(std::string_view parameter) const = 0;
};

struct OptimizerRow {
  std::string_view name;
  std::string_view help;
  std::unique_ptr<Optimizer> (*make)(DataParallel& engine, const OptimizerOptions& options);
};

/// Every optimizer; help, checks and tests walk it.
std::span<const OptimizerRow> optimizers();

/// The engine must outlive the optimizer, which takes over the scale of counted backwards.
std::unique_ptr<Optimizer> make_optimizer(DataParallel& engine, const OptimizerOptions& options);

/// A user's own libtorch optimizer behind the same interface: scale and clipping are applied to the
/// gradients in place, then its step() runs with its own learning rates times lr_factor. Both
/// arguments must outlive the result. Its state is saved by its owner: state(), make_state() and
/// step counts are empty or refuse. Errors: Config with zero above 0.
std::unique_ptr<Optimizer> adapt(DataParallel& engine,
                                 torch::optim::Optimizer& optimizer,
                                 double clip = 0);

}  // namespace lockstep::optim
