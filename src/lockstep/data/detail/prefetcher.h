// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/data/loader.h"

namespace lockstep::detail {

/// Throws Config unless there is a worker.
void check_workers(std::int64_t workers);

/// Runs jobs on threads ahead of the one who waits for them, and hands the results out in order.
///
/// `source` gives the next job, or none at the end. It is called in order, by one thread at a time;
/// jobs run side by side. At most `depth` results are under way or waiting.
/// Errors   What a source or job throws comes out of next() in its turn, and again from every call
///          after it. Environment: the batch did not come within `timeout`; threads that still run
///          are then left to themselves.
class Prefetcher {
 public:
  using Job = std::function<Batch()>;
  using Source = std::function<std::optional<Job>()>;
  Prefetcher(Source source,
             std::int64_t num_threads,
             std::size_t depth,
             std::chrono::milliseconds timeout);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();
  std::optional<Batch> next();

 private:
  struct State;
  std::shared_ptr<State>
      state_;  // shared with the threads, which may outlive a loader that gave up on them
  std::vector<std::thread> threads_;
  std::chrono::milliseconds timeout_;
  bool gave_up_ = false;
};

}  // namespace lockstep::detail
