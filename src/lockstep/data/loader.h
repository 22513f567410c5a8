// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

  /// The text of every rank in rank order, such as
  /// `[&](auto text) { return world.all().gather_text(text, "sampling"); }`. With it the first
  /// next(), and the first one after restore or set_epoch, compares seed, data and position over
  /// the ranks and is collective; without it nobody notices that ranks overlap.
  std::function<std::vector<std::string>(std::string_view)> gather = {};
};

/// Gives a rank's micro batches in the sampler's order, prepared by background threads.
///
/// Epochs   advance by themselves; set_epoch and restore act on the sampler in use and drop what
///          was prefetched.
/// State    state() is the position after the last whole step that next() handed out, not what was
///          prefetched.
/// Errors   Config: a sampler and `shuffle` are both given, or there is no worker. Mismatch, with
///          `gather`: ranks would take the data in different orders, two of them named. What the data set throws comes out of
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

/// Whose part of a stream, and in which epoch; all but `rank` equal on every rank.
struct StreamPlace {
  std::int64_t rank = 0;
  std::int64_t num_ranks = 1;
  std::int64_t seed = 0;
  std::int64_t epoch = 0;
};

/// What a stream that is opened may depend on. Who reads it is not among it, since the loader does
/// the splitting.
struct StreamStart {
  std::int64_t epoch = 0;
  /// For the order of the items: the same for all readers of the epoch.
  std::uint64_t order_seed = 0;
  /// For all else that is random: differs with rank, worker and epoch, the same in every run.
  std::uint64_t seed = 0;
};

/// Gives the items of a stream that every reader must go through: item j, whose number is the
/// batch's id, goes to one (rank, worker) only.
///
/// `open` is called once a worker and returns the whole stream: the same items in the same order
/// for all. Workers take turns, so the order is the same in every run.
/// Errors   Config: no worker, a rank that is not below num_ranks, or `shuffle`.
class StreamLoader {
 public:
  using Open = std::function<Stream(const StreamStart&)>;
  StreamLoader(Open open, const StreamPlace& place, const LoaderOptions& options = {});
  StreamLoader(StreamLoader&&) noexcept;
  StreamLoader& operator=(StreamLoader&&) noexcept;
  ~StreamLoader();
  std::optional<Batch> next();
  /// Opens the stream anew, for `epoch`, and drops what was prefetched.
  void set_epoch(std::int64_t epoch);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
