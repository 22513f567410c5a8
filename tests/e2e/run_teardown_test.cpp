// SPDX-License-Identifier: Apache-2.0
// Nobody is left: after a signal, after the launcher's own death, after a normal end.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/run_support.h"

namespace lockstep::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kMark = "LOCKSTEP_TEST_JOB";

struct Marked {
  std::string mark =
      cat("job-", getpid(), "-", testing::UnitTest::GetInstance()->current_test_info()->line());

  Command command(const std::vector<std::string>& options,
                  const std::vector<std::string>& steps) const {
    Command command = run_ranks_command(options, steps);
    command.environment[kMark] = mark;
    return command;
  }
  std::vector<pid_t> left_after(seconds limit) const {
    const auto until = std::chrono::steady_clock::now() + limit;
    while (!processes_with(kMark, mark).empty() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return processes_with(kMark, mark);
  }
};

bool can_bind(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return bound;
}

int port_told(Running& job) {
  EXPECT_TRUE(job.wait_for("MASTER_PORT=", seconds(10)));
  const std::string printed = job.printed();
  return static_cast<int>(
      parse_int(trim(printed.substr(printed.find("MASTER_PORT=") + 12, 5))).value_or(0));
}

const std::vector<std::string> kWithChildren = {
    "env:MASTER_PORT", "join", "children:2", "daemon", "barrier:up", "print:ready", "sleep:60000"};

TEST(RunTeardown, InterruptLeavesNobodyAndGives130_LAU_18) {
  const Marked marked;
  Running job(marked.command({"-n", "2"}, kWithChildren));
  const int port = port_told(job);
  ASSERT_TRUE(job.wait_for("[1] ready", seconds(10)));
  EXPECT_GE(processes_with(kMark, marked.mark).size(), 9U);
  job.signal(SIGINT);
  const Finished finished = job.wait(seconds(10));
  EXPECT_EQ(finished.status, 130);
  EXPECT_FALSE(finished.timed_out);
  EXPECT_THAT(marked.left_after(seconds(0)), IsEmpty());
  EXPECT_TRUE(can_bind(port));
}

TEST(RunTeardown, HardKillOfTheLauncherLeavesNobody_LAU_18) {
  const Marked marked;
  Running job(marked.command({"-n", "2"}, kWithChildren));
  const int port = port_told(job);
  ASSERT_TRUE(job.wait_for("[1] ready", seconds(10)));
  job.signal(SIGKILL);
  EXPECT_THAT(marked.left_after(seconds(10)), IsEmpty());
  EXPECT_TRUE(can_bind(port));
  EXPECT_EQ(job.wait(seconds(5)).status, 137);
}

TEST(RunTeardown, InterruptTwiceKillsAtOnce_LAU_18) {
  const Marked marked;
  Running job(
      marked.command({"-n", "2", "--shutdown-timeout", "60"},
                     {"ignore:15", "ignore:2", "children:1", "print:ready", "sleep:60000"}));
  ASSERT_TRUE(job.wait_for("[0] ready", seconds(10)));
  job.signal(SIGINT);
  ASSERT_TRUE(job.wait_for("SIGINT", seconds(10)));
  job.signal(SIGINT);
  const Finished finished = job.wait(seconds(5));
  EXPECT_EQ(finished.status, 130);
  EXPECT_FALSE(finished.timed_out);
  EXPECT_THAT(marked.left_after(seconds(1)), IsEmpty());
}

TEST(RunTeardown, RanksThatDoNotStopAreKilledAfterTheShutdownTimeout) {
  const Marked marked;
  Running job(marked.command({"-n", "2", "--shutdown_timeout", "0.5"},
                             {"ignore:15", "print:ready", "sleep:60000"}));
  ASSERT_TRUE(job.wait_for("[0] ready", seconds(10)));
  ASSERT_TRUE(job.wait_for("[1] ready", seconds(10)));
  job.signal(SIGTERM);
  const Finished finished = job.wait(seconds(6));
  EXPECT_EQ(finished.status, 143);
  EXPECT_LT(finished.seconds, 5);
  EXPECT_THAT(finished.err, HasSubstr("ranks 0 1 did not stop within 0.5 s of SIGTERM: killed"));
  EXPECT_THAT(marked.left_after(seconds(1)), IsEmpty());
}

TEST(RunTeardown, RankThatJoinedAndIsKilledBeforeItSavedIsToldAndCounts) {
  for (const int signal : {SIGTERM, SIGINT}) {
    Running job(run_ranks_command(
        {"-n", "3", "--shutdown-timeout", "0.5"},
        {"join", "phase:step 4", "1@ignore:15", "barrier:up", "print:ready", "sleep:60000"}));
    ASSERT_TRUE(job.wait_for("[1] ready", seconds(10)));
    job.signal(signal);
    const Finished finished = job.wait(seconds(6));
    EXPECT_EQ(finished.status, signal == SIGINT ? 130 : 137);
    EXPECT_THAT(finished.err, HasSubstr("rank 1 did not stop within 0.5 s of SIGTERM: killed"));
    EXPECT_THAT(finished.err, HasSubstr("what these ranks had not saved is lost"));
    EXPECT_THAT(
        finished.err,
        testing::ContainsRegex("rank 1 \\(pid [0-9]+\\): killed by SIGKILL, in phase step 4"));
  }
}

TEST(RunTeardown, RanksThatFinishedWhenTheyWereAskedToLeaveAreNotReported) {
  Running job(run_ranks_command({"-n", "2"}, {"join", "finish", "print:ready", "sleep:60000"}));
  ASSERT_TRUE(job.wait_for("[0] ready", seconds(10)));
  ASSERT_TRUE(job.wait_for("[1] ready", seconds(10)));
  job.signal(SIGTERM);
  const Finished finished = job.wait(seconds(6));
  EXPECT_EQ(finished.status, 143);
  EXPECT_THAT(finished.err, testing::Not(HasSubstr("lost")));
}

TEST(RunTeardown, FailureBeforeTheSignalIsToldAllTheSame) {
  for (const int first : {SIGTERM, SIGINT}) {
    Running job(run_ranks_command({"-n", "2"},
                                  {"join",
                                   "1@ignore:15",
                                   "barrier:up",
                                   "0@raise:9",
                                   "sleep:300",
                                   "print:alone",
                                   "sleep:60000"}));
    ASSERT_TRUE(job.wait_for("[1] alone", seconds(10)));
    job.signal(first);
    // Signals that are pending together may arrive in either order.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    job.signal(SIGINT);
    const Finished finished = job.wait(seconds(12));
    EXPECT_EQ(finished.status, 137) << "signal " << first;
    EXPECT_THAT(finished.err, HasSubstr("First failure: rank 0 "));
  }
}

TEST(RunTeardown, TwoSignalsInAMomentAreOneWish) {
  Running job({.words = {program("lockstep").string(),
                         "run",
                         "--",
                         "sh",
                         "-c",
                         "trap 'sleep 0.5; echo saved; exit 143' TERM; echo ready; "
                         "while :; do sleep 0.05; done"}});
  ASSERT_TRUE(job.wait_for("[0] ready", seconds(10)));
  job.signal(SIGTERM);
  ASSERT_TRUE(job.wait_for("SIGTERM", seconds(10)));
  job.signal(SIGTERM);
  const Finished finished = job.wait(seconds(10));
  EXPECT_EQ(finished.status, 143);
  EXPECT_THAT(finished.out, HasSubstr("saved"));
}

TEST(RunTeardown, TerminateAndUser1ReachTheRanksAsSaveAndLeave) {
  for (const int signal : {SIGTERM, SIGUSR1}) {
    const TemporaryFolder folder;
    write_file(folder / "rank.sh",
               cat("trap 'echo saved > ",
                   (folder / "").string(),
                   "saved-$RANK; exit 143' TERM\necho ready\n",
                   "while :; do sleep 0.05; done\n"));
    Running job({.words = {program("lockstep").string(),
                           "run",
                           "-n",
                           "2",
                           "--",
                           "sh",
                           (folder / "rank.sh").string()}});
    ASSERT_TRUE(job.wait_for("[1] ready", seconds(10)));
    ASSERT_TRUE(job.wait_for("[0] ready", seconds(10)));
    job.signal(signal);
    EXPECT_EQ(job.wait(seconds(10)).status, 143);
    EXPECT_EQ(read_file(folder / "saved-0") + read_file(folder / "saved-1"), "saved\nsaved\n");
  }
}

TEST(RunTeardown, ChildrenOfARankThatEndedDoNotOutliveTheJob) {
  const Marked marked;
  const Finished finished = run(marked.command({"-n", "2"}, {"children:2", "daemon"}));
  EXPECT_EQ(finished.status, 0);
  EXPECT_LT(finished.seconds, 5);
  EXPECT_THAT(marked.left_after(seconds(0)), IsEmpty());
}

TEST(RunTeardown, StoreOutlivesTheFirstRankToFinish_LAU_21) {
  const Finished job = run(run_ranks_command({"-n", "2"},
                                             {"join",
                                              "barrier:start",
                                              "1@sleep:1500",
                                              "1@set:late",
                                              "1@wait:late",
                                              "1@print:read it",
                                              "finish"}));
  EXPECT_EQ(job.status, 0);
  EXPECT_THAT(job.out, HasSubstr("[1] read it"));
  EXPECT_EQ(job.err, "");
}

TEST(RunTeardown, JobInsideAJobDiesWithTheOuterLauncher) {
  const Marked marked;
  const TemporaryFolder folder;
  Command command = run_ranks_command({"-n", "2"}, {"print:inner up", "sleep:60000"});
  command.words.insert(command.words.begin(),
                       {program("lockstep").string(), "run", "-n", "1", "--"});
  command.environment[kMark] = marked.mark;
  command.environment["TMPDIR"] = folder.path().string();
  Running job(command);
  ASSERT_TRUE(job.wait_for("[0] [1] inner up", seconds(10)));
  job.signal(SIGKILL);
  EXPECT_THAT(marked.left_after(seconds(10)), IsEmpty());
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace lockstep::test
