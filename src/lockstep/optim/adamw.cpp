// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include "lockstep/optim/fused.h"

namespace lockstep::optim {

namespace {

class AdamW final : public FusedOptimizer {
 public:
  AdamW(DataParallel& engine, const OptimizerOptions& options)
      : FusedOptimizer(engine, options, {"exp_avg", "exp_avg_sq"}) {}

 private:
  void run(Batch& batch) const override {
    const std::optional<at::Tensor> divisor =
        batch.divisor.defined() ? std::optional(batch.divisor) : std::nullopt;
    at::_fused_adamw_(batch.values,
                      batch.gradients,
                      batch.states[0],
                      batch.states[1],
                      {},
                      batch.steps,
                      batch.lr,
                      options().beta1,
                      options().beta2,
                      batch.weight_decay,
                      options().eps,
                      /*amsgrad=*/false,
                      /*maximize=*/false,
                      divisor);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(DataParallel& engine, const OptimizerOptions& options) {
  return std::make_unique<AdamW>(engine, options);
}

}  // namespace lockstep::optim
