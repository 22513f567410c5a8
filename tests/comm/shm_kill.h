// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <signal.h>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "support/world_job.h"

namespace lockstep::test {

inline std::size_t files_in_shared_memory() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/dev/shm"),
                                                std::filesystem::directory_iterator()));
}

inline bool has_own_socket() {
  std::ifstream file("/proc/net/unix");
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return contains(text, "@lockstep-");
}

/// Kills a rank of three at a random moment of an endless loop of large all_reduces. The others must end soon, naming it, and
/// nothing may be left of the job.
inline void kill_a_rank_in_a_collective(std::mt19937& random) {
  using namespace std::chrono;
  const std::size_t files = files_in_shared_memory();
  const int victim = static_cast<int>(random() % 2) + 1;  // rank 0 serves the table
  std::vector<Running> ranks =
      start({.arguments = {"--backend", "shm", "--steps", "1000000", "--elements", "2000000"},
             .size = 3});
  ASSERT_TRUE(ranks[0].wait_for("rank 0 step 2\n", seconds(30)));
  std::this_thread::sleep_for(microseconds(random() % 50'000));
  ranks[static_cast<std::size_t>(victim)].signal(SIGKILL);
  const auto killed = steady_clock::now();
  const std::vector<Finished> ends = wait_all(ranks, seconds(20));
  EXPECT_LT(steady_clock::now() - killed, seconds(15));
  for (int rank = 0; rank < 3; ++rank) {
    if (rank == victim)
      continue;
    const Finished& end = ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.status, 6) << end.err;
    EXPECT_THAT(end.err, testing::HasSubstr(cat("rank ", victim, " is gone"))) << "rank " << rank;
  }
  EXPECT_EQ(files_in_shared_memory(), files);
  EXPECT_FALSE(has_own_socket());
}

}  // namespace lockstep::test
