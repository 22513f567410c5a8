// SPDX-License-Identifier: Apache-2.0
// What goes wrong between ranks that are processes, without a launcher.
#include <signal.h>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "support/world_job.h"

namespace lockstep::test {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

TEST(Deadline, NamesTheLateRankAndWhereItIs_HNG_01) {
  std::vector<Running> ranks = start(
      {.arguments =
           {"--timeout-ms", "3000", "--steps", "30", "--rank", "2", "--at", "17", "--do", "sleep"},
       .size = 4});
  for (const int rank : {0, 1, 3}) {
    Running& running = ranks[static_cast<std::size_t>(rank)];
    ASSERT_TRUE(running.wait_for("step 16", seconds(30)));
    const Finished end = running.wait(seconds(10));
    EXPECT_EQ(end.status, 6) << end.err;
    EXPECT_THAT(end.err,
                AllOf(HasSubstr("rank 2 missing at all_reduce #17"),
                      HasSubstr("its last was all_reduce #16"),
                      HasSubstr("forward")));
  }
  // The late rank hears of it in its own next call.
  ranks[2].signal(SIGKILL);
}

TEST(Failure, OfOneRankEndsTheOthersWithItsCause_HNG_03) {
  const std::vector<Finished> ends = run_job({.arguments = {"--timeout-ms",
                                                            "1800000",
                                                            "--steps",
                                                            "2000",
                                                            "--step-ms",
                                                            "5",
                                                            "--rank",
                                                            "1",
                                                            "--at",
                                                            "3",
                                                            "--do",
                                                            "bad_alloc"},
                                              .size = 3});
  for (const Finished& end : ends) {
    EXPECT_LT(end.seconds, 12);
    EXPECT_THAT(end.err, HasSubstr("bad_alloc"));
  }
  EXPECT_EQ(ends[1].status, 70);
  for (const int other : {0, 2}) {
    EXPECT_EQ(ends[static_cast<std::size_t>(other)].status, 6);
    EXPECT_THAT(ends[static_cast<std::size_t>(other)].err, HasSubstr("rank 1 failed"));
  }
}

TEST(Failure, OfTheRankThatServesTheStoreIsCarriedToo_HNG_03) {
  const std::vector<Finished> ends = run_job({.arguments = {"--timeout-ms",
                                                            "1800000",
                                                            "--steps",
                                                            "2000",
                                                            "--step-ms",
                                                            "5",
                                                            "--rank",
                                                            "0",
                                                            "--at",
                                                            "4",
                                                            "--do",
                                                            "throw"},
                                              .size = 3});
  for (const Finished& end : ends) {
    EXPECT_LT(end.seconds, 12);
    EXPECT_THAT(end.err, HasSubstr("the data of this rank is broken"));
  }
}

TEST(Mismatch, OfAnExtraReductionOnOneRankIsToldOnBoth_HNG_06) {
  const std::vector<Finished> ends =
      run_job({.arguments = {"--steps", "5", "--rank", "0", "--at", "1", "--do", "extra"}});
  for (const Finished& end : ends) {
    EXPECT_EQ(end.status, 5) << end.err;
    EXPECT_LT(end.seconds, 7);
    EXPECT_THAT(end.err,
                AllOf(HasSubstr("all_reduce sum f32 [1] 'metric' (rank 0)"),
                      HasSubstr("'gradient' (rank 1)")));
  }
}

TEST(Mismatch, OfKnownCallsIsToldWhenTheyBlock_HNG_06) {
  // From step 2 on both signatures are known, so nothing is compared before the call; the watchdog compares what blocks.
  const std::vector<Finished> ends = run_job(
      {.arguments = {"--steps", "9", "--barrier", "--rank", "0", "--at", "4", "--do", "barrier"}});
  for (const Finished& end : ends) {
    EXPECT_EQ(end.status, 5) << end.err;
    EXPECT_LT(end.seconds, 7);
    EXPECT_THAT(
        end.err,
        AllOf(HasSubstr("barrier 'end of step' (rank 0)"), HasSubstr("'gradient' (rank 1)")));
  }
}

TEST(Mismatch, OfShapesAndOfOperationsIsToldOnBoth_HNG_02) {
  for (const std::string what : {"shape", "operation"}) {
    const std::vector<Finished> ends = run_job(
        {.arguments =
             {"--steps", "5", "--elements", "100", "--rank", "1", "--at", "2", "--do", what},
         .size = 3});
    for (const Finished& end : ends) {
      EXPECT_EQ(end.status, 5) << what << ": " << end.err;
      EXPECT_LT(end.seconds, 9);
      EXPECT_THAT(end.err,
                  AllOf(HasSubstr("all_reduce sum f64 [100] 'gradient' (rank "),
                        HasSubstr("(rank 1)"),
                        HasSubstr(what == "shape" ? "f32 [200, 4]" : "broadcast f32 [100]")));
    }
  }
}

TEST(Killed, RankIsNamedByTheSurvivors) {
  for (const int victim : {2, 1, 0}) {
    std::vector<Running> ranks =
        start({.arguments = {"--timeout-ms", "1800000", "--steps", "100000"}, .size = 3});
    ASSERT_TRUE(ranks[static_cast<std::size_t>(victim)].wait_for("step 20", seconds(30)));
    ranks[static_cast<std::size_t>(victim)].signal(SIGKILL);
    for (int rank = 0; rank < 3; ++rank) {
      const Finished end = ranks[static_cast<std::size_t>(rank)].wait(seconds(10));
      EXPECT_FALSE(end.timed_out);
      if (rank == victim)
        continue;
      EXPECT_EQ(end.status, 6) << end.err;
      EXPECT_THAT(end.err, HasSubstr(cat("rank ", victim))) << "victim " << victim;
    }
  }
}

TEST(Killed, WhileItComputesIsFoundTooByRanksThatWait) {
  std::vector<Running> ranks =
      start({.arguments = {"--timeout-ms", "1800000", "--rank", "1", "--at", "3", "--do", "kill"},
             .size = 3});
  for (const int rank : {0, 2}) {
    const Finished end = ranks[static_cast<std::size_t>(rank)].wait(seconds(20));
    EXPECT_EQ(end.status, 6) << end.err;
    EXPECT_LT(end.seconds, 12);
    EXPECT_THAT(end.err, HasSubstr("rank 1 is gone"));
  }
}

TEST(Killed, IsFoundByRanksThatExchangeTextsToo) {
  std::vector<Running> ranks = start(
      {.arguments =
           {"--timeout-ms", "1800000", "--gather", "--rank", "1", "--at", "3", "--do", "kill"},
       .size = 3});
  for (const int rank : {0, 2}) {
    const Finished end = ranks[static_cast<std::size_t>(rank)].wait(seconds(20));
    EXPECT_EQ(end.status, 6) << end.err;
    EXPECT_LT(end.seconds, 12);
    EXPECT_THAT(end.err, HasSubstr("rank 1 is gone"));
  }
}

TEST(Left, RankThatFinishedEarlyIsNamed) {
  std::vector<Running> ranks = start({.arguments = {"--timeout-ms",
                                                    "1800000",
                                                    "--steps",
                                                    "20",
                                                    "--rank",
                                                    "1",
                                                    "--at",
                                                    "5",
                                                    "--do",
                                                    "finish"},
                                      .size = 3});
  const Finished early = ranks[1].wait(seconds(20));
  EXPECT_EQ(early.status, 0) << early.err;
  for (const int rank : {0, 2}) {
    const Finished end = ranks[static_cast<std::size_t>(rank)].wait(seconds(20));
    EXPECT_EQ(end.status, 6) << end.err;
    EXPECT_LT(end.seconds, 12);
    EXPECT_THAT(end.err, AllOf(HasSubstr("rank 1"), HasSubstr("finished")));
  }
}

}  // namespace
}  // namespace lockstep::test
