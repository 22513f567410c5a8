// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/optimizer.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/optim/gradient_norm.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

namespace {

class Adapter final : public Optimizer {
 public:
  Adapter(DataParallel& engine, torch::optim::Optimizer& optimizer, double clip)
      : engine_(engine), optimizer_(optimizer), clip_(clip) {}

  StepResult step(double lr_factor) override {
    at::NoGradGuard no_grad;
    engine_.finish();
    std::vector<std::string> names;
    std::vector<at::Tensor> gradients;
    for (const auto& [name, tensor] : engine_.parameters()) {
      if (!tensor.grad().defined())
        continue;
      names.push_back(name);
      gradients.push_back(tensor.grad());
    }
    StepResult result{.grad_norm = gradient_norm(names, gradients, UpdateStep{})};
    result.clip_factor = clip_factor(result.grad_norm, clip_);
    if (result.clip_factor != 1) {
      for (at::Tensor& gradient : gradients)
        gradient.mul_(result.clip_factor);
    }
    std::vector<double> rates;
    for (auto& group : optimizer_.param_groups()) {
      rates.push_back(group.options().get_lr());
      group.options().set_lr(rates.back() * lr_factor);
    }
    optimizer_.step();
    for (std::size_t at = 0; at < rates.size(); ++at)
      optimizer_.param_groups()[at].options().set_lr(rates[at]);
    Done done;
    engine_.update(done);
    return result;
  }

  void zero_grad() override { engine_.zero_grad(); }
  std::vector<NamedState> state() override { return {}; }
  void make_state(std::string_view parameter) override { refuse(parameter); }
  std::map<std::string, std::int64_t> step_counts() const override { return {}; }
  void set_step_counts(const std::map<std::string, std::int64_t>& counts) override {
    if (!counts.empty())
      refuse(counts.begin()->first);
  }
  double lr_of(std::string_view) const override {
    return optimizer_.param_groups().front().options().get_lr();
  }

 private:
  /// The update itself was libtorch's; this ends the engine's step.
  struct Done final : ShardUpdate {
    UpdateUnit needs() const override { return UpdateUnit::Parameter; }
    void update(std::span<const UpdateSlice>, const UpdateStep&) override {}
  };

  static void refuse(std::string_view parameter) {
    throw Error(
        {.fault = Fault::Config,
         .where = {.subject = std::string(parameter)},
         .problem =
             "the state of a libtorch optimizer is kept by its owner and cannot be loaded here",
         .next = "Load it with torch::load, or use one of lockstep's optimizers"});
  }

  DataParallel& engine_;
  torch::optim::Optimizer& optimizer_;
  double clip_;
};

}  // namespace

std::unique_ptr<Optimizer> adapt(DataParallel& engine,
                                 torch::optim::Optimizer& optimizer,
                                 double clip) {
  if (engine.zero() > 0) {
    throw Error(
        {.fault = Fault::Config,
         .where = {.subject = "optimizer"},
         .problem = cat("an optimizer of libtorch updates whole parameters, and with zero = ",
                        engine.zero(),
                        " a rank has the gradient of its part only"),
         .next = "Use make_optimizer(), or zero = 0"});
  }
  return std::make_unique<Adapter>(engine, optimizer, clip);
}

}  // namespace lockstep::optim
