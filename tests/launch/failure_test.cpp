// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/failure.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace lockstep::launch {
namespace {

using testing::HasSubstr;
using testing::Not;

RankEnd ended(int rank, int order, int status) {
  return {.rank = rank, .local_rank = rank, .pid = 100 + rank, .status = status, .order = order};
}

TEST(Failure, EarliestOwnFailureIsTheCause_LAU_19) {
  const std::vector<RankEnd> ends = {ended(0, 2, 1), ended(1, 1, 3), ended(2, 0, 0)};
  EXPECT_EQ(first_failure(ends), 1U);
}

TEST(Failure, SignalOrOwnFaultWinsOverThoseThatBlameAnother_LAU_19) {
  std::vector<RankEnd> ends = {ended(0, 0, 6), ended(1, 3, 0), ended(2, 1, 5)};
  ends[2].consequence = true;
  ends[1].signal = SIGKILL;
  EXPECT_EQ(first_failure(ends), 1U);
  ends[1].signal = 0;
  EXPECT_EQ(first_failure(ends), 0U)
      << "with nobody else to blame the first that told is the cause";
}

TEST(Failure, RankThatWasStoppedIsNoCauseUnlessItHadToldItsFailure) {
  std::vector<RankEnd> ends = {ended(0, 0, 0), ended(1, 1, 0), ended(2, 2, 7)};
  ends[0].signal = SIGTERM;
  ends[0].stopped = true;
  EXPECT_EQ(first_failure(ends), 2U);
  ends[1] = ended(1, 1, 8);
  ends[1].stopped = true;
  ends[1].fault = "numeric";
  ends[1].error = "the loss is not finite";
  EXPECT_EQ(first_failure(ends), 1U);
}

TEST(Failure, ZeroAfterJoiningWithoutFinishingIsAFailureThatIsNotZero_LAU_17) {
  RankEnd end = ended(0, 0, 0);
  EXPECT_FALSE(failed(end));
  end.joined = true;
  EXPECT_TRUE(failed(end));
  EXPECT_EQ(job_status(end), 1);
  EXPECT_THAT(how_it_ended(end), HasSubstr("before it had finished"));
  end.finished = true;
  EXPECT_FALSE(failed(end));
}

TEST(Failure, RanksThatJoinedAndDidNotFinishAreTheUnfinishedOnes) {
  std::vector<RankEnd> ends = {ended(0, 0, 143), ended(1, 1, 0), ended(2, 2, 143), ended(3, 3, 0)};
  ends[0].joined = ends[1].joined = ends[2].joined = true;
  ends[0].finished = true;
  ends[1].signal = SIGKILL;
  ends[1].phase = "save";
  const auto lost = unfinished(ends);
  EXPECT_EQ(lost, (std::vector<std::size_t>{1, 2}));
  const std::string text = unfinished_report(ends, lost, SIGTERM);
  EXPECT_THAT(text, HasSubstr("SIGTERM ended the job"));
  EXPECT_THAT(text, HasSubstr("rank 1 (pid 101): killed by SIGKILL, in phase save\n"));
  EXPECT_THAT(text, HasSubstr("rank 2 (pid 102): exit status 143\n"));
  EXPECT_THAT(text, Not(HasSubstr("rank 0")));
}

TEST(Failure, StatusIsTheRanksOwnOr128AndTheSignal) {
  RankEnd end = ended(0, 0, 42);
  EXPECT_EQ(job_status(end), 42);
  end.signal = SIGSEGV;
  EXPECT_EQ(job_status(end), 139);
  EXPECT_EQ(how_it_ended(end), "killed by SIGSEGV");
}

TEST(Failure, NobodyFailedIsNoCause) {
  EXPECT_FALSE(first_failure({}).has_value());
  EXPECT_FALSE(first_failure(std::vector<RankEnd>{ended(0, 0, 0), ended(1, 1, 0)}).has_value());
}

TEST(Failure, ReportHintsAtMemoryForSigkillAndCutsLongLists_LAU_19) {
  std::vector<RankEnd> ends;
  for (int rank = 0; rank < 40; ++rank)
    ends.push_back(ended(rank, rank, 0));
  ends[7].signal = SIGKILL;
  ends[7].error_lines = {"step 4", "allocating"};
  const std::string report = failure_report(ends, 7, "box", 2);
  EXPECT_THAT(
      report,
      HasSubstr(
          "attempt 2. First failure: rank 7 (local rank 7, host box, pid 107): killed by SIGKILL"));
  EXPECT_THAT(report, HasSubstr("memory killer"));
  EXPECT_THAT(report, HasSubstr("| allocating"));
  EXPECT_THAT(report, HasSubstr("and 23 more"));
  ends[7].signal = SIGABRT;
  EXPECT_THAT(failure_report(ends, 7, "box", 2), Not(HasSubstr("memory killer")));
}

TEST(Failure, RankThatCrashedByItselfWasNotStoppedByTheLauncher) {
  std::vector<RankEnd> ends = {ended(0, 0, 7), ended(1, 1, 0), ended(2, 2, 0)};
  ends[1].signal = SIGSEGV;
  ends[2].signal = SIGTERM;
  ends[1].stopped = ends[2].stopped = true;
  const std::string text = failure_report(ends, 0, "here", 0);
  EXPECT_THAT(text, HasSubstr("rank 1 (pid 101): killed by SIGSEGV\n"));
  EXPECT_THAT(text, HasSubstr("rank 2 (pid 102): killed by SIGTERM, stopped by the launcher\n"));
}

TEST(Failure, JsonHasSignalByNameAndOthers) {
  std::vector<RankEnd> ends = {ended(0, 1, 6), ended(1, 0, 0)};
  ends[1].signal = SIGKILL;
  const nlohmann::json json = failure_json(ends, 1, "box", 0);
  EXPECT_EQ(json["first_failure"]["signal"], "SIGKILL");
  EXPECT_TRUE(json["first_failure"]["status"].is_null());
  EXPECT_EQ(json["others"][0]["status"], 6);
  EXPECT_EQ(json["others"][0]["consequence"], true);
}

}  // namespace
}  // namespace lockstep::launch
