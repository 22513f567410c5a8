// SPDX-License-Identifier: Apache-2.0
// What `lockstep run` starts and shows: flags and variables of torchrun, whole lines, files.
#include <algorithm>
#include <array>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/run_support.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::Not;

Finished lockstep(std::vector<std::string> words,
                  std::map<std::string, std::string> variables = {}) {
  words.insert(words.begin(), program("lockstep").string());
  return run({.words = std::move(words), .environment = std::move(variables)});
}

TEST(Run, TrueEndsInUnderThreeTenthsOfASecond) {
  double best = 10;
  for (int i = 0; i < 5; ++i) {
    const Finished job = lockstep({"run", "-n", "2", "--", "true"});
    EXPECT_EQ(job.status, 0);
    EXPECT_EQ(job.out + job.err, "");
    best = std::min(best, job.seconds);
  }
  EXPECT_LT(best, 0.3);
}

TEST(Run, LinesStayWholeAndCarryTheirRank_LAU_22) {
  const Finished job = run(run_ranks_command({"-n", "4"}, {"lines:1000:200"}));
  EXPECT_EQ(job.status, 0);
  std::vector<std::string> lines = split(job.out, '\n');
  ASSERT_EQ(lines.size(), 4001U);
  lines.pop_back();
  std::array<int, 4> next = {};
  for (const std::string& line : lines) {
    const int rank = line[1] - '0';
    std::string expected =
        cat("rank ", rank, " line ", next[static_cast<std::size_t>(rank)]++, " ");
    expected.resize(200, 'x');
    ASSERT_EQ(line, cat("[", rank, "] ", expected));
  }
}

TEST(Run, SlowReaderGetsEveryLine) {
  const std::string line = cat(program("lockstep").string(),
                               " run -n 3 ",
                               program("programs/scripted_rank").string(),
                               " lines:4000:300 | (sleep 1; wc -l)");
  const Finished job = run({.words = {"sh", "-c", line}});
  EXPECT_EQ(trim(job.out), "12000");
}

TEST(Run, ReaderThatLeavesDoesNotHangTheJob) {
  const std::string line = cat(program("lockstep").string(),
                               " run -n 2 ",
                               program("programs/scripted_rank").string(),
                               " lines:20000:100 | head -n 1");
  const Finished job = run({.words = {"sh", "-c", line}, .timeout = std::chrono::seconds(20)});
  EXPECT_FALSE(job.timed_out);
}

TEST(Run, ReaderThatLeavesEndsRanksThatPrintForever) {
  const std::string lockstep = program("lockstep").string();
  const std::string line =
      cat("(", lockstep, " run -n 2 -- sh -c yes; echo status $? >&2) | head -n 1");
  const Finished job = run({.words = {"sh", "-c", line}, .timeout = std::chrono::seconds(20)});
  EXPECT_FALSE(job.timed_out);
  EXPECT_EQ(count(job.out, "y\n"), 1U);
  EXPECT_THAT(job.err, HasSubstr("standard output cannot be written any more (Broken pipe)"));
  EXPECT_THAT(job.err, HasSubstr("status 141"));
}

TEST(Run, ReaderThatStallsDoesNotHoldAFailingJobOrASignal) {
  const std::string lockstep = program("lockstep").string();
  const auto begun = std::chrono::steady_clock::now();
  const std::string run_two = cat(lockstep, " run -n 2 -- sh -c ");
  for (const auto& [command, status] :
       {std::pair{cat("timeout --preserve-status -s TERM 2 ", run_two, "yes"), "status 143"},
        std::pair{cat(run_two, "'if [ $RANK = 1 ]; then sleep 1; exit 9; fi; yes'"), "status 9"}}) {
    Running job({.words = {"sh", "-c", cat("(", command, "; echo status $? >&2) | sleep 30")}});
    EXPECT_TRUE(job.wait_for(status, std::chrono::seconds(14))) << command << job.printed();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(24));
}

TEST(Run, OutputThatCannotBeWrittenIsAFault) {
  const std::string lockstep = program("lockstep").string();
  for (const std::string command :
       {"run -n 2 -- echo hello", "--help", "run --help", "--version"}) {
    for (const std::string sink : {">/dev/full", ">&-"}) {
      const Finished job = run({.words = {"sh", "-c", cat(lockstep, " ", command, " ", sink)}});
      EXPECT_EQ(job.status, 7) << command << sink;
      EXPECT_THAT(job.err, HasSubstr("standard output")) << command << sink;
      EXPECT_THAT(job.err, HasSubstr("cannot be written")) << command << sink;
    }
  }
}

TEST(Run, LastLineWithoutAnEndIsNotLost) {
  const Finished job = lockstep({"run", "-n", "2", "--", "sh", "-c", "printf 'no end %s' $RANK"});
  EXPECT_THAT(job.out, HasSubstr("[0] no end 0\n"));
  EXPECT_THAT(job.out, HasSubstr("[1] no end 1\n"));
}

TEST(Run, GivesTheVariablesOfTorchrun) {
  const Finished job = lockstep(
      {"run",
       "-n",
       "2",
       "--rdzv-id",
       "job7",
       "--role",
       "trainer",
       "sh",
       "-c",
       "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $GROUP_WORLD_SIZE "
       "$ROLE_RANK $ROLE_NAME $ROLE_WORLD_SIZE $MASTER_ADDR $TORCHELASTIC_RESTART_COUNT "
       "$TORCHELASTIC_MAX_RESTARTS $TORCHELASTIC_RUN_ID $TORCHELASTIC_USE_AGENT_STORE "
       "$TORCH_NCCL_ASYNC_ERROR_HANDLING"});
  EXPECT_THAT(job.out, HasSubstr("[1] 1 1 2 2 0 1 1 trainer 2 127.0.0.1 0 0 job7 True 1\n"));
}

TEST(Run, TakesBothSpellingsAndTheVariablesOfFlags) {
  const std::vector<std::string> program = {"sh", "-c", "echo $WORLD_SIZE $OMP_NUM_THREADS"};
  for (const std::vector<std::string>& flag :
       {std::vector<std::string>{"--nproc-per-node", "3"},
        std::vector<std::string>{"--nproc_per_node=3"},
        std::vector<std::string>{"-n3"},
        std::vector<std::string>{"--standalone", "-n", "3"}}) {
    std::vector<std::string> words = {"run"};
    words.insert(words.end(), flag.begin(), flag.end());
    words.insert(words.end(), program.begin(), program.end());
    EXPECT_EQ(count(lockstep(words, {{"OMP_NUM_THREADS", "5"}}).out, "3 5\n"), 3U) << flag.front();
  }
  const Finished job = lockstep({"run", "--", "sh", "-c", "echo $WORLD_SIZE"},
                                {{"PET_NPROC_PER_NODE", "3"}, {"PET_MASTER_ADDR", "127.0.0.1"}});
  EXPECT_EQ(count(job.out, "3\n"), 3U);
}

TEST(Run, WordsAfterTheProgramAreTheProgramsOwn) {
  const Finished job = lockstep({"run", "-n", "1", "echo", "--log_dir", "-n", "--", "x_y"});
  EXPECT_EQ(job.out, "[0] --log_dir -n -- x_y\n");
}

TEST(Run, WritesAFileForEachRank_LAU_22) {
  const TemporaryFolder folder;
  const std::string logs = (folder / "logs").string();
  const Finished job = run(run_ranks_command(
      {"-n", "2", "--log-dir", logs, "-r", "0:1", "-t", "1:3"}, {"print:to out", "error:to err"}));
  for (const int rank : {0, 1}) {
    const std::string text = read_file(folder / cat("logs/attempt-0/rank-", rank, ".log"));
    EXPECT_THAT(text, HasSubstr("to out\n"));
    EXPECT_THAT(text, HasSubstr("to err\n"));
  }
  EXPECT_THAT(job.out, Not(HasSubstr("[0] to out")));
  EXPECT_THAT(job.out, HasSubstr("[1] to out"));
  EXPECT_THAT(job.err, HasSubstr("[0] to err"));
}

TEST(Run, EnvironmentFileReachesEveryRankByteForByte) {
  const TemporaryFolder folder;
  write_file(folder / "env",
             "# for all\n\nexport X_FLAG=a b=c;d \"e\" $HOME\nQUOTED=\"two words\"\n");
  const Finished job = run(run_ranks_command({"-n", "2", "--env-file", (folder / "env").string()},
                                             {"env:X_FLAG", "env:QUOTED"}));
  EXPECT_EQ(count(job.out, "X_FLAG=a b=c;d \"e\" $HOME\n"), 2U);
  EXPECT_EQ(count(job.out, "QUOTED=two words\n"), 2U);
}

TEST(Run, RefusesWhatCannotBeDoneAndSaysWhatToDo) {
  const std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> cases = {
      {{"run", "--nproc-per-nod", "2", "true"},
       {"--nproc-per-nod", "did you mean '--nproc-per-node'"}},
      {{"run", "-n", "0", "true"}, {"--nproc-per-node", "'0'"}},
      {{"run", "-n", "two", "true"}, {"'two'"}},
      {{"run", "-n", "2"}, {"no program"}},
      {{"run", "--", "no-such-program-here"}, {"no-such-program-here", "PATH"}},
      {{"run", "./no-such-program-here"}, {"./no-such-program-here"}},
      {{"run", "-r", "4", "--log-dir", "x", "true"}, {"--redirects", "'4'"}},
      {{"run", "-t", "3", "true"}, {"--log-dir"}},
      {{"run", "-n2", "--log-dir", "x", "-t", "0:1,7:2", "true"}, {"--tee", "no local rank 7"}},
      {{"run", "--nnodes", "2", "true"}, {"--master-addr"}},
      {{"run", "--nnodes", "1:4", "true"}, {"1:4", "not built"}},
      {{"run", "--hostfile", "hosts", "true"}, {"--hostfile", "not built yet"}},
      {{"run", "--rdzv-backend", "etcd", "true"}, {"etcd"}},
      {{"run", "--rdzv-conf", "timeuot=3", "true"}, {"did you mean 'timeout'"}},
      {{"run", "--master-port", "70000", "true"}, {"70000", "65535"}},
      {{"run", "--env-file", "/no/such/file", "true"}, {"/no/such/file"}},
      {{"rnu"}, {"did you mean 'run'"}},
  };
  for (const auto& [words, texts] : cases) {
    const Finished job = lockstep(words);
    EXPECT_THAT(job.status, testing::AnyOf(2, 3, 4)) << join(words, " ");
    EXPECT_EQ(job.out, "");
    for (const std::string& text : texts)
      EXPECT_THAT(job.err, HasSubstr(text)) << join(words, " ");
  }
}

TEST(Run, HelpTellsOptionsDefaultsAndExamples) {
  const Finished help = lockstep({"run", "--help"});
  EXPECT_EQ(help.status, 0);
  for (const char* text : {"--nproc-per-node",
                           "PET_NPROC_PER_NODE",
                           "--shutdown-timeout FLOAT=8",
                           "Examples:",
                           "lockstep run [options] [--] PROGRAM"}) {
    EXPECT_THAT(help.out, HasSubstr(text));
  }
  const Finished version = lockstep({"--version"});
  for (const char* text : {"lockstep ", "libtorch ", "compiler ", "backends "})
    EXPECT_THAT(version.out, HasSubstr(text));
}

TEST(Run, StartsAPythonProgramOfTorchDistributedUnchanged) {
  const TemporaryFolder folder;
  write_file(folder / "sum.py",
             "import torch, torch.distributed as dist\n"
             "dist.init_process_group('gloo')\n"
             "t = torch.full((3,), float(dist.get_rank() + 1)); dist.all_reduce(t)\n"
             "print('sum', t.tolist(), flush=True)\n"
             "dist.destroy_process_group()\n");
  const std::string python = cat(LOCKSTEP_SOURCE_DIR, "/.venv/bin/python");
  const Finished job = lockstep({"run", "--nproc_per_node", "2", (folder / "sum.py").string()},
                                {{"PYTHON_EXEC", python}});
  EXPECT_EQ(job.status, 0) << job.err;
  EXPECT_EQ(count(job.out, "sum [3.0, 3.0, 3.0]\n"), 2U);
}

}  // namespace
}  // namespace lockstep::test
