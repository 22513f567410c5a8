// SPDX-License-Identifier: Apache-2.0
// Ranks of a real World that end badly under the real launcher: what the job says and how it ends.
#include <chrono>

#include "e2e/kill_rounds.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

/// Three ranks that would go on for minutes, of which `rank` does `deed` at step `at`.
Finished run_with(const std::string& deed, int rank, int at) {
  return run(world_job_command({"-n", "3"},
                               {"--timeout-ms",
                                "1800000",
                                "--steps",
                                "100000",
                                "--step-ms",
                                "2",
                                "--rank",
                                cat(rank),
                                "--at",
                                cat(at),
                                "--do",
                                deed}));
}

/// The launcher's report of the first failure, to the end.
std::string report_of(const Finished& end) {
  return end.err.substr(std::min(end.err.size(), end.err.find("First failure")));
}

TEST(Kill, OfAnyRankAtAnyMomentEndsTheJobInTimeAndNamesIt) { kill_ranks_at_random_moments(8, 20); }

TEST(Kill, RankThatLeavesWithZeroBeforeItFinishedIsTheFirstFailure_LAU_17) {
  for (const int rank : {0, 2}) {
    const Finished end = run_with("exit", rank, 5);
    EXPECT_EQ(end.status, 1) << end.err;
    EXPECT_LT(end.seconds, 10);
    EXPECT_THAT(end.err, HasSubstr(cat("First failure: rank ", rank, " (")));
    EXPECT_THAT(end.err, HasSubstr("left with exit status 0 before it had finished"));
  }
}

TEST(Kill, ErrorOfOneRankEndsTheJobWithItsText_HNG_03) {
  for (const int rank : {0, 1}) {
    const Finished end = run_with("bad_alloc", rank, 4);
    EXPECT_EQ(end.status, 70) << end.err;
    EXPECT_LT(end.seconds, 10);
    const std::string report = report_of(end);
    EXPECT_THAT(report, HasSubstr(cat("First failure: rank ", rank, " (")));
    EXPECT_THAT(report, HasSubstr("bad_alloc"));
  }
}

TEST(Kill, LateRankIsNamedByTheLauncherToo_HNG_01) {
  Running job(world_job_command(
      {"-n", "4"},
      {"--timeout-ms", "3000", "--steps", "30", "--rank", "2", "--at", "17", "--do", "sleep"}));
  ASSERT_TRUE(job.wait_for("rank 0 step 16", std::chrono::seconds(30))) << job.printed();
  const auto reached = std::chrono::steady_clock::now();
  ASSERT_TRUE(job.wait_for("First failure", std::chrono::seconds(10))) << job.printed();
  EXPECT_LT(std::chrono::steady_clock::now() - reached, std::chrono::seconds(6));
  const Finished end = job.wait(std::chrono::seconds(20));
  EXPECT_EQ(end.status, 6) << end.err;
  for (const int rank : {0, 1, 3})
    EXPECT_THAT(end.err, HasSubstr(cat("[", rank, "] "))) << "rank " << rank << " said nothing";
  const std::string report = report_of(end);
  EXPECT_THAT(report, HasSubstr("rank 2 missing at all_reduce #17"));
  EXPECT_THAT(report, HasSubstr("its last was all_reduce #16"));
  EXPECT_THAT(report, HasSubstr("forward"));
}

}  // namespace
}  // namespace lockstep::test
