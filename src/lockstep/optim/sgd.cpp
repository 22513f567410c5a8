// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include "lockstep/optim/fused.h"

namespace lockstep::optim {

namespace {

class Sgd final : public FusedOptimizer {
 public:
  Sgd(DataParallel& engine, const OptimizerOptions& options)
      : FusedOptimizer(engine,
                       options,
                       options.momentum > 0 ? std::vector<std::string>{"momentum"}
                                            : std::vector<std::string>{}) {}

 private:
  void run(Batch& batch) const override {
    const std::optional<at::Tensor> divisor =
        batch.divisor.defined() ? std::optional(batch.divisor) : std::nullopt;
    const bool nesterov = options().momentum_kind == OptimizerOptions::Momentum::Nesterov;
    const std::vector<at::Tensor> buffers =
        options().momentum > 0 ? batch.states[0] : std::vector<at::Tensor>{};
    at::_fused_sgd_(batch.values,
                    batch.gradients,
                    buffers,
                    batch.weight_decay,
                    options().momentum,
                    batch.lr,
                    /*dampening=*/0,
                    nesterov,
                    /*maximize=*/false,
                    batch.first_step,
                    divisor);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(DataParallel& engine, const OptimizerOptions& options) {
  return std::make_unique<Sgd>(engine, options);
}

}  // namespace lockstep::optim
