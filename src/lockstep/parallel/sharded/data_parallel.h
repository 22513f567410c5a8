// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/torch_fwd.h"
#include "lockstep/base/bucket_bytes.h"
#include "lockstep/comm/group.h"
#include "lockstep/parallel/sharded/shard_update.h"

namespace lockstep {

namespace sharded {
class Engine;
}

/// What happens when some ranks have no more data for a step (DataParallel::agree).
enum class Uneven {
  Error,       ///< Mismatch naming the ranks that are out, on every rank
  Join,        ///< ranks without data take part with zeros; the mean is over all ranks
  JoinActive,  ///< the same; the mean is over the ranks that still have data
  Stop,        ///< the step is left out on every rank
};

/// What DataParallel::sync_buffers() makes of buffers such as running statistics.
enum class BufferPolicy { Rank0, Average, None };

/// Static: each parameter gets its gradient equally often in every backward. Checked; saves the
/// marks of unused parameters.
enum class GraphKind { Dynamic, Static };

struct DataParallelOptions {
  /// What the ranks share out: 0 nothing (DDP); 1 the update and the optimizer's state (ZeRO-1).
  int zero = 0;

  // Changes results.
  Uneven uneven = Uneven::Error;
  BufferPolicy buffers = BufferPolicy::Rank0;
  /// Counted backwards run on loss / nominal_count; keeps 16-bit gradients in range. Any positive
  /// number, the same on every rank.
  double nominal_count = 1;

  // Changes speed only.
  /// Cap of one reduction. Small: more overlap, a latency for each. Large: fewer calls, the last
  /// one is not hidden.
  std::int64_t bucket_bytes = kDefaultBucketBytes;
  GraphKind graph = GraphKind::Dynamic;
};

/// Figures of the last synchronised step and since the start. Gradient reductions only, the
/// start-up broadcast apart.
struct ReductionReport {
  struct Unused {
    std::string parameter;
    int rank = 0;
    /// First step of the unbroken run of steps without a gradient; steps count from 1.
    std::int64_t since_step = 0;
  };
  std::vector<Unused> unused;  ///< over all ranks, by parameter
  std::int64_t steps = 0;
  std::int64_t reductions = 0;           ///< since the start, on this rank
  std::int64_t reductions_per_step = 0;  ///< in the last step
  /// Payload of the last step's reductions; a rank sends 2 (n-1)/n of it.
  std::int64_t reduced_bytes_per_step = 0;
  /// Mean cost of writing and reading the marks of unused parameters.
  double marks_ms_per_step = 0;
};

/// What this rank does in the step that agree() settled.
enum class StepPlan { Work, Shadow, Stop };
enum class Data { Here, Out };

/// While it lives, backward adds gradients locally and sends nothing. Counts where backward runs;
/// nests.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(std::shared_ptr<sharded::Engine> engine);
  NoSync(NoSync&&) noexcept = default;
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync();

 private:
  std::shared_ptr<sharded::Engine> engine_;  // shared with the DataParallel
};

/// Data parallel training of any module with any loss: gradients become the mean over the ranks of
/// `group`.
///
///   DataParallel ddp(*model, world.all());
///   loss.backward(); optimizer.step(); optimizer.zero_grad();   // any optimizer, any forwards
///
/// Wrapping compares names, shapes and types over the ranks, broadcasts rank 0's parameters and
/// buffers and compares a hash of each. Parameters and gradients then live in flat buffers:
/// parameters keep their identity (tensor objects), their memory moves; `parameter.grad()` is a
/// view, also after zero_grad() of either kind.
///
/// Contract  Every rank runs the same synchronised backwards in the same order. Buckets are
///           all-reduced in an order fixed by the parameters while backward goes on; gradients are
///           final when backward returns. A rank whose loss uses no parameter at all calls
///           DataParallel::backward, since nothing else would tell it that a backward took place.
/// Unused    A parameter without a gradient counts as zero; without one on any rank its gradient
///           stays undefined.
/// Frozen    requires_grad may change between steps, on all ranks alike; on one rank only is a
///           Mismatch that names it.
/// Divisor   Plain backward: mean over ranks of the local gradients, added over backwards. Counted
///           backward: sum of losses over the sum of counts, over all ranks and micro-steps of the
///           step.
/// ZeRO      With zero = 1 each rank updates 1/n of every bucket and holds the optimizer's state of
///           that part only (Rajbhandari et al. 2020); gradients are reduce-scattered, parameters
///           gathered after the update. parameter.grad() is then undefined outside of backward, so
///           only optimizers that update slices fit, and gradients live until our zero_grad().
/// Cost      2 (n-1)/n * bytes of gradients sent per rank and step, two elements a parameter more
///           for marks; extra memory: the largest gradient of one parameter.
/// Errors    Mismatch: ranks disagree on the model, on frozen parameters or on counts. Config: a
///           parameter that cannot be reduced (sparse gradient, overlapping memory). Usage: a
///           registered parameter or buffer changed after wrapping, or gradients were not reduced
///           before an update. A backward that ends by an error leaves no gradient and no count of
///           its step.
/// Limit     A tensor put in the place of a parameter is found by the next backward that reaches
///           one of the others. Where none is left (a single parameter), nothing runs in that
///           backward: update() and what is collective here find it, but a libtorch optimizer
///           used without optim::adapt does not ask.
/// Threads   One thread a rank calls; hooks run where autograd runs them. The module must outlive
///           this object.
class DataParallel {
 public:
  DataParallel(torch::nn::Module& model,
               const Group& group,
               const DataParallelOptions& options = {});
  DataParallel(DataParallel&&) noexcept;
  DataParallel& operator=(DataParallel&&) = delete;
  ~DataParallel();

  /// loss.backward(), and takes part in the step even where the loss reaches no parameter.
  void backward(const at::Tensor& loss);
  /// `loss_sum` is a sum over `count` samples or tokens. After the step's last backward the
  /// gradient is the mean over all of them: in place, or with pending_scale() still to be applied
  /// where an optimizer of ours does it.
  void backward(const at::Tensor& loss_sum, std::int64_t count);

  NoSync no_sync();
  /// Reduces what no_sync backwards have gathered, without another backward. Collective.
  void synchronize();

  /// Settles the next step with every rank: has anyone run out of data? Collective, before the
  /// step's first forward. Work: forward and backward as usual. Shadow: gradients are there
  /// already, go on to optimizer.step(). Stop: leave the loop.
  StepPlan agree(Data data);

  /// The true gradient is parameter.grad() times this. 1, unless keep_scale() was called.
  double pending_scale() const;
  /// From now on the scale of counted backwards is left to the caller (our optimizers call this).
  void keep_scale();
  /// Applies the pending scale to the gradients, for an update that is not made by update().
  /// Throws Usage as update() does.
  void finish();

  /// Hands every parameter that has a gradient to `update`, with the scale, and ends the step.
  /// Throws Usage where a no_sync backward was the last one, no backward reached a parameter since
  /// the last update, or the model was changed after wrapping.
  void update(ShardUpdate& update);
  /// Gradients become undefined.
  void zero_grad();
  /// What this rank updates of a parameter; at zero = 0 all of it. Storage for an unknown name.
  UpdateSlice slice_of(std::string_view parameter) const;

  /// Applies the buffer policy; before evaluation and before saving. Collective.
  void sync_buffers();
  /// Throws Mismatch naming the rank and the first parameter or buffer that differs. Collective;
  /// reads all parameters.
  void check_in_sync() const;
  /// Collective, since it tells of every rank.
  ReductionReport report() const;

  /// Names and tensors of the distinct parameters, in order of registration; a shared parameter has
  /// its first name.
  const std::vector<std::pair<std::string, at::Tensor>>& parameters() const;
  const Group& group() const;
  /// As in the options; 0 where there is only one rank.
  int zero() const;

 private:
  std::shared_ptr<sharded::Engine> engine_;  // shared with the guards of no_sync
};

}  // namespace lockstep
