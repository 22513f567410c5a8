// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/pure/permutation.h"

namespace lockstep {

enum class Order {
  Sequential,  ///< 0, 1, 2, ... in every epoch
  Shuffled,    ///< a new Permutation of (seed, epoch) in every epoch
};

/// What becomes of the samples at the end of an epoch that do not fill a step.
enum class Tail {
  Drop,    ///< left out of this epoch
  Repeat,  ///< filled up with samples from the front of the epoch's order, as often as needed
  Once,    ///< a smaller step, some ranks with less or nothing: each counts once. For evaluation
};

/// Which data and in which order; equal on every rank.
struct SamplerOptions {
  std::int64_t num_samples = 0;
  Order order = Order::Shuffled;
  Tail tail = Tail::Drop;
  std::int64_t seed = 0;
  std::optional<std::int64_t> num_epochs;  ///< without: for ever
};

/// How a step is dealt: micro batch k of rank r is leaf k n + r, and leaf j takes samples [j micro,
/// (j + 1) micro) of the step. So a step has the same samples whatever the number of ranks n, as
/// long as micro * accumulation * n stays the same.
struct Dealing {
  std::int64_t rank = 0;
  std::int64_t num_ranks = 1;
  std::int64_t micro = 1;         ///< samples of a micro batch
  std::int64_t accumulation = 1;  ///< micro batches of a step
  std::int64_t global() const { return micro * accumulation * num_ranks; }
};

/// Where the order stands: global, not per rank, so that another number of ranks can go on from it.
struct SamplerState {
  std::int64_t seed = 0;
  std::int64_t epoch = 0;
  std::int64_t consumed = 0;  ///< samples of this epoch that all ranks together have had
  friend bool operator==(const SamplerState&, const SamplerState&) = default;
};

/// One rank's part of one step.
struct Step {
  std::int64_t epoch = 0;
  std::int64_t in_epoch = 0;  ///< samples of the epoch before this step
  /// Sample ids, a list a micro batch. The number of lists is the same on every rank; a list may be
  /// empty only with Tail::Once.
  std::vector<std::vector<std::int64_t>> micro_batches;
  SamplerState after;  ///< to be saved once this step is done
};

/// Deals the samples of a data set to ranks, step by step, epoch by epoch. The epoch advances by
/// itself.
///
/// Steps    Step s of an epoch has the samples at positions [s G, (s + 1) G) of the epoch's order,
///          G = Dealing::global(). The union over ranks is what a single process with the same G
///          would take.
/// Resume   restore(state) continues the very order, also with other Dealing: what is left is dealt
///          anew. The end of epoch e is the start of e + 1.
/// Errors   Config from the constructor: no samples, with Tail::Drop fewer than a step, or a Dealing
///          that deals nothing. Mismatch from restore: other seed. Usage: a negative position.
/// Copies   There are none: an epoch set on a stale copy would be lost. After a move the source
///          throws Usage.
/// Warns    in the log when the same shuffled order begins twice in a row.
class DistributedSampler {
 public:
  DistributedSampler(const SamplerOptions& options, const Dealing& dealing);
  DistributedSampler(DistributedSampler&& other) noexcept;
  DistributedSampler& operator=(DistributedSampler&& other) = delete;

  /// This rank's part of the next step; none after the last epoch.
  std::optional<Step> next();

  const SamplerState& state() const { return state_; }
  void restore(const SamplerState& state);
  /// Goes to the start of `epoch`.
  void set_epoch(std::int64_t epoch);

  std::int64_t steps_per_epoch() const;
  /// Steps from here to the end of the last epoch; Usage without num_epochs.
  std::int64_t steps_left() const;

  const SamplerOptions& options() const { return options_; }
  const Dealing& dealing() const { return dealing_; }

 private:
  void check_owned() const;
  void begin_epoch();
  std::int64_t steps_from(std::int64_t consumed) const;
  std::int64_t sample_at(std::int64_t position) const;

  SamplerOptions options_;
  Dealing dealing_;
  SamplerState state_;
  std::optional<Permutation> permutation_;  ///< of the epoch under way; none in Order::Sequential
  std::optional<std::int64_t> begun_;       ///< the epoch that began last
  bool moved_from_ = false;
};

/// Throws Internal unless `done` updates were made: a run that silently ended early is not a
/// success.
void check_updates(std::int64_t done, std::int64_t planned);

/// Throws Mismatch naming two ranks and both texts unless every rank samples the same data in the
/// same way, by the same seed. `gather` returns the text of every rank in rank order, e.g.
/// Group::gather_text. Call before the first step.
void check_same_sampling(const DistributedSampler& sampler,
                         const std::function<std::vector<std::string>(std::string_view)>& gather);

}  // namespace lockstep
