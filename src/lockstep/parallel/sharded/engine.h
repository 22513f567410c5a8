// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/sharded/backward_watch.h"
#include "lockstep/parallel/sharded/data_parallel.h"
#include "lockstep/parallel/sharded/flat_values.h"
#include "lockstep/parallel/sharded/parameter_table.h"
#include "lockstep/parallel/sharded/pure/usage_log.h"
#include "lockstep/parallel/sharded/reducer.h"
#include "lockstep/parallel/sharded/shard_update.h"

namespace lockstep::sharded {

/// The state behind DataParallel: when a backward is synchronised, by what its sum is divided, and
/// what was used.
class Engine : private BackwardListener {
 public:
  Engine(torch::nn::Module& module, const Group& group, const DataParallelOptions& options);

  void backward(const at::Tensor& loss);
  void backward(const at::Tensor& loss_sum, std::int64_t count);
  enum class Part { Active, Shadow };
  void synchronize(Part part);
  StepPlan agree(Data data);

  void hold_sync() { ++unsynced_guards_; }
  void release_sync() { --unsynced_guards_; }

  double pending_scale() const { return pending_scale_; }
  void keep_scale() { keeps_scale_ = true; }
  void finish();
  void update(ShardUpdate& update);
  UpdateSlice slice_of(int parameter) const;
  void zero_grad();

  ReductionReport report() const;
  const ParameterTable& table() const { return table_; }
  const Group& group() const { return group_; }
  const DataParallelOptions& options() const { return options_; }

 private:
  void backward_began(int first_parameter) override;
  void gradient_arrived(int parameter) override;
  void backward_ended() override;
  void backward_abandoned() override;

  void run(const at::Tensor& loss, double weight);
  void begin(int first_parameter);
  /// `times`: gradients by parameter in the backward that just ended; empty without one.
  void end_synchronised(Part part, std::span<const int> times);
  GlobalMarks reduce(Part part, std::span<const int> times);
  void divide(const GlobalMarks& marks);
  void refuse_mixed_counts(int first_parameter);
  void reopen_step();
  void gather_values();
  bool sharded() const { return shards_ > 1; }
  bool gradients_are_clear(int except) const;
  void check_static();
  void check_no_parameter_slipped_away() const;
  void check_ready_to_update() const;
  bool has_gradients() const;
  void forget_step();

  DataParallelOptions options_;
  Group group_;
  ParameterTable table_;
  int shards_;  // ranks that share the update: 1 or all
  Reducer reducer_;
  FlatValues values_;
  UsageLog usage_;
  BackwardWatch watch_;  // after all that its hooks touch

  int unsynced_guards_ = 0;
  bool in_backward_ = false;
  bool synchronised_ = false;  // the running backward
  bool counts_ = false;        // the running backward has a count
  std::int64_t backwards_ = 0;
  std::int64_t updated_steps_ = 0;  // reductions before the last update
  std::vector<int> times_;          // gradients of the running backward, by parameter
  std::vector<int> uses_;           // gradients since the last reduction
  std::optional<std::vector<int>> static_times_;

  // What the gradients hold: not reduced yet, and reduced in this step.
  bool local_plain_ = false, local_counted_ = false;
  std::int64_t local_count_ = 0;
  bool reduced_plain_ = false;
  int plain_divisor_ = 1;
  std::int64_t reduced_count_ = 0;  // over all ranks; 0: nothing counted
  double applied_scale_ = 1;
  double pending_scale_ = 1;
  bool keeps_scale_ = false;

  std::int64_t reductions_ = 0, bytes_ = 0;  // up to the last step
  std::int64_t step_reductions_ = 0, step_bytes_ = 0;
};

}  // namespace lockstep::sharded
