// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/optim/flat_state.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

/// What AdamW and SGD share: groups, norm, clipping, counters. A kernel updates one batch of slices
/// that agree in everything a fused call takes once.
class FusedOptimizer : public Optimizer, private ShardUpdate {
 public:
  FusedOptimizer(DataParallel& engine,
                 const OptimizerOptions& options,
                 std::vector<std::string> state_kinds);

  StepResult step(double lr_factor) override;
  void zero_grad() override { engine_.zero_grad(); }
  std::vector<NamedState> state() override { return state_.named(); }
  void make_state(std::string_view parameter) override;
  std::map<std::string, std::int64_t> step_counts() const override { return state_.step_counts(); }
  void set_step_counts(const std::map<std::string, std::int64_t>& counts) override {
    state_.set_step_counts(counts);
  }
  double lr_of(std::string_view parameter) const override;

 protected:
  struct Batch {
    double lr = 0;
    double weight_decay = 0;
    bool first_step = false;
    std::vector<at::Tensor> values, gradients, steps;
    std::vector<std::vector<at::Tensor>> states;  // by kind
    /// Gradients are divided by it; undefined for 1, which leaves their bits alone.
    at::Tensor divisor;
  };
  virtual void run(Batch& batch) const = 0;
  const OptimizerOptions& options() const { return options_; }

 private:
  UpdateUnit needs() const override { return UpdateUnit::Element; }
  void update(std::span<const UpdateSlice> slices, const UpdateStep& step) override;
  Batch& batch_for(std::vector<Batch>& batches, const UpdateSlice& slice, bool first_step) const;

  DataParallel& engine_;
  OptimizerOptions options_;
  std::size_t num_kinds_;
  FlatState state_;
  std::map<std::string, int, std::less<>> group_of_;
  double lr_factor_ = 1;
  StepResult result_;
};

std::unique_ptr<Optimizer> make_adamw(DataParallel& engine, const OptimizerOptions& options);
std::unique_ptr<Optimizer> make_sgd(DataParallel& engine, const OptimizerOptions& options);

}  // namespace lockstep::optim
