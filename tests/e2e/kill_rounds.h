// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <random>
#include <signal.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/run_support.h"

namespace lockstep::test {

/// `lockstep run OPTIONS -- world_loop ARGUMENTS`: ranks of a real World under the real launcher.
inline Command world_job_command(const std::vector<std::string>& options,
                                 const std::vector<std::string>& arguments) {
  Command command;
  command.words = {program("lockstep").string(), "run"};
  command.words.insert(command.words.end(), options.begin(), options.end());
  command.words.emplace_back("--");
  command.words.push_back(program("programs/world_loop").string());
  command.words.insert(command.words.end(), arguments.begin(), arguments.end());
  return command;
}

/// The process that is rank `rank` of a job marked with `mark`; waits for it, -1 when it never comes.
inline pid_t rank_process(const std::string& mark, int rank) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < until) {
    const std::vector<pid_t> marked = processes_with("LOCKSTEP_TEST_JOB", mark);
    for (const pid_t process : processes_with("RANK", cat(rank))) {
      if (std::ranges::find(marked, process) != marked.end())
        return process;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return -1;
}

/// One round: 3 ranks that would go on for minutes, with timeouts of half an hour, of which one is killed `delay` after it was
/// started. The job must end by itself, name that rank and leave nobody.
inline void kill_one_rank(int victim, std::chrono::milliseconds delay) {
  SCOPED_TRACE(cat("rank ", victim, " killed after ", delay.count(), " ms"));
  const TemporaryFolder folder;
  const std::string mark = folder.path().string();
  Command command = world_job_command(
      {"-n", "3"}, {"--timeout-ms", "1800000", "--steps", "1000000", "--step-ms", "3"});
  command.environment["LOCKSTEP_TEST_JOB"] = mark;
  Running job(command);
  const pid_t process = rank_process(mark, victim);
  ASSERT_GT(process, 0) << job.printed();
  std::this_thread::sleep_for(delay);
  const auto killed_at = std::chrono::steady_clock::now();
  ASSERT_EQ(::kill(process, SIGKILL), 0) << job.printed();
  const Finished end = job.wait(std::chrono::seconds(20));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - killed_at;
  EXPECT_FALSE(end.timed_out);
  EXPECT_LT(took.count(), 10);
  EXPECT_EQ(end.status, 137);
  EXPECT_THAT(end.err, testing::HasSubstr(cat("First failure: rank ", victim, " (")));
  EXPECT_THAT(end.err, testing::HasSubstr(cat("pid ", process, "): killed by SIGKILL")));
  EXPECT_THAT(processes_with("LOCKSTEP_TEST_JOB", mark), testing::IsEmpty());
  if (testing::Test::HasFailure())
    ADD_FAILURE() << end.err;
}

/// Random victims at random moments from the start on: before they join, while they join, while they work.
inline void kill_ranks_at_random_moments(int rounds, unsigned seed) {
  std::mt19937 random(seed);
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const int victim = static_cast<int>(random() % 3);
    kill_one_rank(victim, std::chrono::milliseconds(random() % 2000));
  }
}

}  // namespace lockstep::test
