// SPDX-License-Identifier: Apache-2.0
// How a failing job ends: who is named, with which status, and that the others are stopped in time.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "e2e/run_support.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RunFailure, RankThatLeavesWithZeroBeforeItFinishedIsAFailure_LAU_17) {
  const Finished job = run(run_ranks_command(
      {"-n", "4"}, {"join", "barrier:step5", "2@exit:0", "sleep:60000", "finish"}));
  EXPECT_NE(job.status, 0);
  EXPECT_LT(job.seconds, 10);
  EXPECT_THAT(job.err, HasSubstr("First failure: rank 2 "));
  EXPECT_THAT(job.err, HasSubstr("before it had finished"));
}

TEST(RunFailure, RankThatNeverJoinedIsJudgedByItsStatusAlone) {
  EXPECT_EQ(run(run_ranks_command({"-n", "2"}, {"exit:0"})).status, 0);
  EXPECT_EQ(run(run_ranks_command({"-n", "2"}, {"set:key", "exit:0"})).status, 0);
  EXPECT_EQ(run(run_ranks_command({"-n", "2"}, {"join", "finish", "exit:0"})).status, 0);
}

TEST(RunFailure, ProgramThatJoinsTwiceMustFinishTwice) {
  EXPECT_EQ(run(run_ranks_command({"-n", "1"}, {"join", "finish", "join", "finish"})).status, 0);
  EXPECT_NE(run(run_ranks_command({"-n", "1"}, {"join", "finish", "join"})).status, 0);
}

TEST(RunFailure, NamesTheKilledRankAsRootAndTheOthersAsConsequences_LAU_19) {
  // The others notice at once and blame it, as ranks of a World do: one even before the launcher could see the death.
  const Finished job =
      run(run_ranks_command({"-n", "3"},
                            {"join",
                             "phase:step 4",
                             "barrier:step4",
                             "0@fail:peer:rank 1 is gone:all_reduce #9:consequence",
                             "1@sleep:50",
                             "1@raise:9",
                             "2@sleep:200",
                             "2@fail:peer:rank 1 is gone:all_reduce #9:consequence",
                             "exit:6"}));
  EXPECT_EQ(job.status, 137);
  EXPECT_LT(job.seconds, 10);
  const std::string report = job.err.substr(job.err.find("First failure"));
  EXPECT_THAT(report, HasSubstr("First failure: rank 1 (local rank 1, host "));
  EXPECT_THAT(report, HasSubstr("killed by SIGKILL"));
  EXPECT_THAT(report, HasSubstr("phase: step 4"));
  EXPECT_THAT(report, HasSubstr("memory killer"));
  const std::string others = report.substr(report.find("consequences"));
  EXPECT_THAT(others, HasSubstr("rank 0 (pid "));
  EXPECT_THAT(others, HasSubstr("rank 2 (pid "));
  EXPECT_THAT(others, Not(HasSubstr("rank 1 (pid ")));
  EXPECT_EQ(count(job.err, "First failure"), 1U);
}

TEST(RunFailure, StatusOfTheFailingRankIsPassedOn) {
  for (const int status : {1, 3, 42, 255}) {
    const Finished job =
        run(run_ranks_command({"-n", "2"}, {cat("1@exit:", status), "sleep:60000"}));
    EXPECT_EQ(job.status, status);
    EXPECT_THAT(job.err, HasSubstr(cat("exit status ", status)));
  }
  EXPECT_EQ(run(run_ranks_command({"-n", "2"}, {"0@raise:6", "sleep:60000"})).status, 134);
}

TEST(RunFailure, RankThatToldItsFailureCarriesItsTextIntoTheReport) {
  const Finished job = run(run_ranks_command({"-n", "2"},
                                             {"join",
                                              "phase:forward",
                                              "1@fail:numeric:the loss is not finite:all_reduce #3",
                                              "1@exit:8",
                                              "sleep:60000"}));
  EXPECT_EQ(job.status, 8);
  EXPECT_LT(job.seconds, 5);
  EXPECT_THAT(job.err, HasSubstr("error: the loss is not finite"));
  EXPECT_THAT(job.err, HasSubstr("last operation: all_reduce #3"));
  EXPECT_THAT(job.err, HasSubstr("rank 0 (pid "));
}

TEST(RunFailure, RanksThatJoinedGetASecondToSpeakForThemselves) {
  const Finished job = run(run_ranks_command(
      {"-n", "2"},
      {"join", "1@exit:5", "0@sleep:300", "0@error:I saw that rank 1 is gone", "exit:6"}));
  EXPECT_THAT(job.err, HasSubstr("[0] I saw that rank 1 is gone"));
  EXPECT_EQ(job.status, 5);
}

TEST(RunFailure, RankThatIgnoresSigtermIsKilledWithinTheShutdownTimeout) {
  const Finished job =
      run(run_ranks_command({"-n", "2", "--shutdown-timeout", "1"},
                            {"0@ignore:15", "0@sleep:60000", "sleep:300", "exit:3"}));
  EXPECT_EQ(job.status, 3);
  EXPECT_LT(job.seconds, 4);
  EXPECT_THAT(job.err, HasSubstr("rank 0 did not stop within 1 s"));
}

TEST(RunFailure, LinePrintedBeforeAnAbortIsInTheReport_LAU_22) {
  const Finished job = run(run_ranks_command(
      {"-n", "4"}, {"3@print:the last words of rank 3", "3@raise:6", "sleep:60000"}));
  EXPECT_EQ(job.status, 134);
  const std::string report = job.err.substr(job.err.find("First failure"));
  EXPECT_THAT(report, HasSubstr("rank 3 "));
  EXPECT_THAT(report, HasSubstr("SIGABRT"));
  EXPECT_THAT(report, HasSubstr("| the last words of rank 3"));
}

TEST(RunFailure, FailureFileHoldsTheReport) {
  const TemporaryFolder folder;
  run(run_ranks_command({"-n", "3", "--log-dir", (folder / "logs").string()},
                        {"join",
                         "phase:data",
                         "1@error:no more data",
                         "1@fail:storage:the file ended:read",
                         "1@exit:7",
                         "sleep:60000"}));
  const auto json = nlohmann::json::parse(read_file(folder / "logs/failure.json"));
  const auto& first = json["first_failure"];
  EXPECT_EQ(first["rank"], 1);
  EXPECT_EQ(first["status"], 7);
  EXPECT_TRUE(first["signal"].is_null());
  EXPECT_EQ(first["phase"], "data");
  EXPECT_EQ(first["last_operation"], "read");
  EXPECT_EQ(first["error"], "the file ended");
  EXPECT_EQ(first["last_lines"][0], "no more data");
  EXPECT_GT(first["pid"], 0);
  EXPECT_EQ(json["others"].size(), 2U);
}

TEST(RunFailure, NothingOfAnEarlierJobStaysInTheLogFolder) {
  const TemporaryFolder folder;
  const std::string logs = (folder / "logs").string();
  run(run_ranks_command({"-n", "3", "--log-dir", logs, "--max-restarts", "1"}, {"1@exit:7"}));
  ASSERT_TRUE(std::filesystem::exists(folder / "logs/failure.json"));
  ASSERT_TRUE(std::filesystem::exists(folder / "logs/attempt-1/rank-2.log"));
  write_file(folder / "logs/attempt-0/notes", "mine");
  const Finished job = run(run_ranks_command({"-n", "2", "--log-dir", logs}, {"print:new"}));
  EXPECT_EQ(job.status, 0) << job.err;
  EXPECT_FALSE(std::filesystem::exists(folder / "logs/failure.json"));
  EXPECT_FALSE(std::filesystem::exists(folder / "logs/attempt-0/rank-2.log"));
  EXPECT_FALSE(std::filesystem::exists(folder / "logs/attempt-1"));
  EXPECT_TRUE(std::filesystem::exists(folder / "logs/attempt-0/notes"));
  EXPECT_EQ(read_file(folder / "logs/attempt-0/rank-1.log"), "new\n");
}

TEST(RunFailure, DeathOfTheStoreIsInTheFailureFile) {
  const TemporaryFolder folder;
  Command command = run_ranks_command(
      {"-n", "2", "--log-dir", (folder / "logs").string(), "--shutdown-timeout", "1"},
      {"barrier:start", "print:met", "sleep:60000"});
  command.environment["LOCKSTEP_TEST_JOB"] = folder.path().string();
  Running job(command);
  ASSERT_TRUE(job.wait_for("met", std::chrono::seconds(20))) << job.printed();
  int stores = 0;
  for (const pid_t process : processes_with("LOCKSTEP_TEST_JOB", folder.path().string())) {
    const std::string words = read_file(cat("/proc/", process, "/cmdline"));
    if (words.find(std::string("store\0--fd", 10)) == std::string::npos)
      continue;
    ++stores;
    ::kill(process, SIGKILL);
  }
  ASSERT_EQ(stores, 1);
  const Finished end = job.wait(std::chrono::seconds(20));
  EXPECT_EQ(end.status, 4) << end.err;
  const auto json = nlohmann::json::parse(read_file(folder / "logs/failure.json"));
  EXPECT_TRUE(json["first_failure"]["rank"].is_null());
  EXPECT_EQ(json["first_failure"]["error"],
            "the store process ended under the ranks: killed by SIGKILL");
  EXPECT_EQ(json["others"].size(), 2U);
}

TEST(RunFailure, ExceptionOfAPythonProgramIsReadFromItsErrorFile) {
  const TemporaryFolder folder;
  write_file(folder / "rank.sh",
             "printf '{\"message\": {\"message\": \"ValueError: seven\"}}' > "
             "$TORCHELASTIC_ERROR_FILE; exit 1\n");
  const Finished job = run(
      {.words = {
           program("lockstep").string(), "run", "-n", "2", "sh", (folder / "rank.sh").string()}});
  EXPECT_EQ(job.status, 1);
  EXPECT_THAT(job.err, HasSubstr("error: ValueError: seven"));
}

TEST(RunFailure, WholeGroupIsStartedAgainWithTheNextAttemptNumber) {
  const TemporaryFolder folder;
  const Finished job = run(
      run_ranks_command({"-n", "2", "--max-restarts", "2", "--log-dir", (folder / "logs").string()},
                        {"env:TORCHELASTIC_RESTART_COUNT",
                         "barrier:start",
                         cat("1@once:", (folder / "seen").string()),
                         "sleep:100"}));
  EXPECT_EQ(job.status, 0);
  EXPECT_THAT(job.out, HasSubstr("[0] TORCHELASTIC_RESTART_COUNT=1"));
  EXPECT_THAT(job.out, HasSubstr("[1] TORCHELASTIC_RESTART_COUNT=1"));
  EXPECT_THAT(job.out, Not(HasSubstr("TORCHELASTIC_RESTART_COUNT=2")));
  EXPECT_THAT(job.err, HasSubstr("attempt 1 of at most 2"));
  EXPECT_THAT(read_file(folder / "logs/attempt-0/rank-1.log"), HasSubstr("COUNT=0"));
  EXPECT_THAT(read_file(folder / "logs/attempt-1/rank-1.log"), HasSubstr("COUNT=1"));
}

TEST(RunFailure, LastAttemptsFailureIsTheJobs) {
  const Finished job =
      run(run_ranks_command({"-n", "2", "--max_restarts=1"},
                            {"env:TORCHELASTIC_MAX_RESTARTS", "0@exit:4", "sleep:60000"}));
  EXPECT_EQ(job.status, 4);
  EXPECT_EQ(count(job.err, "First failure: rank 0 "), 2U);
  EXPECT_THAT(job.out, HasSubstr("TORCHELASTIC_MAX_RESTARTS=1"));
}

}  // namespace
}  // namespace lockstep::test
