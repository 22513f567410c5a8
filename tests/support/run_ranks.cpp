// SPDX-License-Identifier: Apache-2.0
#include "support/run_ranks.h"

#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/rank_report.h"

namespace lockstep::test {

namespace {

// Ends the program, with the place of every rank, when the ranks need too long: a thread that hangs cannot be ended alone.
class Deadline {
 public:
  Deadline(std::vector<World>& worlds, std::chrono::milliseconds timeout)
      : thread_([this, &worlds, timeout] {
          std::unique_lock lock(mutex_);
          if (changed_.wait_for(lock, timeout, [&] { return over_; }))
            return;
          std::cerr << cat(
              "run_ranks: not done after ", timeout.count(), " ms; the ranks stand here:\n");
          for (const World& world : worlds)
            std::cerr << "  " << standing(world) << "\n";
          std::cerr.flush();
          std::_Exit(1);
        }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

// The same tests run once a backend.
WorldOptions over_tested_backend(WorldOptions options) {
  const char* backend = std::getenv("LOCKSTEP_TEST_BACKEND");
  if (backend != nullptr && options.backend == "auto")
    options.backend = backend;
  return options;
}

}  // namespace

void run_ranks(int size,
               const std::function<void(World&)>& body,
               std::chrono::milliseconds timeout) {
  run_ranks(size, WorldOptions{.timeout = timeout}, body, timeout);
}

void run_ranks(int size,
               const WorldOptions& options,
               const std::function<void(World&)>& body,
               std::chrono::milliseconds timeout) {
  std::vector<World> worlds = World::of_threads(size, over_tested_backend(options));
  std::vector<std::string> failures(worlds.size());
  {
    const Deadline deadline(worlds, timeout);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < worlds.size(); ++rank) {
      threads.emplace_back([&, rank] {
        World& world = worlds[rank];
        try {
          body(world);
          world.finish();
        } catch (const std::exception& error) {
          failures[rank] = cat("rank ", rank, " failed: ", error.what());
          world.fail(error);
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
  }
  for (const std::string& failure : failures) {
    if (!failure.empty())
      ADD_FAILURE() << failure;
  }
}

void run_failing_ranks(int size,
                       const WorldOptions& options,
                       const std::function<void(World&)>& body) {
  run_ranks(size, options, [&](World& world) {
    body(world);
    EXPECT_THROW(world.finish(), Error) << "rank " << world.rank().value << " hides the failure";
  });
}

void run_failing_ranks(int size, const std::function<void(World&)>& body) {
  run_failing_ranks(size, WorldOptions{.timeout = std::chrono::seconds(60)}, body);
}

}  // namespace lockstep::test
