// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/pure/sampler.h"

namespace lockstep {

/// One micro batch of this rank.
struct Batch {
  Examples examples;
  std::vector<std::int64_t> ids;  ///< sample ids, row by row; empty where this rank has nothing
  std::int64_t epoch = 0;
  std::int64_t micro_batch = 0;        ///< k-th of its step
  std::int64_t num_micro_batches = 1;  ///< of its step; the same on every rank
  SamplerState after;                  ///< position once this step is done
  std::chrono::nanoseconds waited{};   ///< how long next() took: 0 when the loader keeps up
};

struct LoaderOptions {
  // Changes results.
  std::optional<Order> shuffle;  ///< only without a sampler: one place decides the order
  // Changes speed only. (The number of workers also enters the seed of random data sets.)
  std::int64_t workers = 1;  ///< threads; too few: next() waits, too many: they take cores
  std::size_t prefetch = 4;  ///< batches ready or under way, at least one a worker
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  ///< of next()
};

/// Gives a rank's micro batches in the sampler's order, prepared by background threads.
///
/// Epochs   advance by themselves; set_epoch and restore act on the sampler in use and drop what
///          was prefetched.
/// State    state() is the position after the last whole step that next() handed out, not what was
///          prefetched.
/// Errors   Config: a sampler and `shuffle` are both given. What the data set throws comes out of
///          next() in its turn. Environment: next() waited past the timeout.
/// Threads  One caller. The destructor ends the background threads, after the batch that each is
///          at.
class DataLoader {
 public:
  DataLoader(Dataset dataset, DistributedSampler sampler, const LoaderOptions& options = {});
  /// Makes its own sampler: one epoch after the other, tail dropped, in the order of
  /// `options.shuffle` (sequential).
  DataLoader(Dataset dataset,
             std::int64_t num_samples,
             const Dealing& dealing,
             const LoaderOptions& options);
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  ~DataLoader();

  /// The next micro batch; none after the sampler's last epoch.
  std::optional<Batch> next();

  const SamplerState& state() const;
  void restore(const SamplerState& state);
  void set_epoch(std::int64_t epoch);
  std::int64_t steps_per_epoch() const;
  /// Steps after state() to the end of the sampler's last epoch.
  std::int64_t steps_left() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Gives the items of a stream that every reader must go through: item j, whose number is the
/// batch's id, goes to one (rank, worker) only.
///
/// `open` is called once a worker and returns the whole stream, the same for all; the loader does
/// the splitting. Workers take turns, so the order is the same in every run.
class StreamLoader {
 public:
  StreamLoader(const std::function<Stream(const Reader&)>& open,
               std::int64_t rank,
               std::int64_t num_ranks,
               const LoaderOptions& options = {});
  StreamLoader(StreamLoader&&) noexcept;
  StreamLoader& operator=(StreamLoader&&) noexcept;
  ~StreamLoader();
  std::optional<Batch> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
