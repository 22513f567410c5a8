// SPDX-License-Identifier: Apache-2.0
// What `lockstep train` refuses, where it writes, and what a full disk does to it.
#include <chrono>
#include <csignal>
#include <sys/mount.h>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

#include "e2e/train_support.h"
#include "support/process.h"

namespace lockstep::test {
namespace {

TEST_F(Train, AFullDiskAtACheckpointLeavesTheFirstOneWhole_CKP_09) {
  const fs::path disk = folder_ / "disk";
  fs::create_directories(disk);
  // One checkpoint of the tiny model is about 60 kB: the first fits, the second does not.
  ASSERT_EQ(train(2, "size", {"--steps", "1"}).status, 0);
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "size")) {
    if (entry.is_regular_file())
      bytes += (entry.file_size() + 4095) / 4096 * 4096;
  }
  const std::string size = cat("size=", (bytes * 3 / 2 + 1023) / 1024, "k");
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, size.c_str()) != 0)
    GTEST_SKIP() << "mounting a small disk needs root";
  const Finished run = train(2, "disk/a", {"--set", "checkpoint.every=1"});
  const std::string first = generated(disk / "a" / "checkpoints" / "step-000001");
  const bool has_second = fs::exists(disk / "a" / "checkpoints" / "step-000002");
  ::umount(disk.c_str());
  EXPECT_EQ(run.status, 7) << run.out << run.err;
  EXPECT_THAT(run.err, testing::ContainsRegex("[0-9]+ bytes"));
  EXPECT_THAT(run.err, HasSubstr("free"));
  EXPECT_FALSE(first.empty());
  EXPECT_FALSE(has_second);
}

/// What is a rank under `lockstep run`, each with options of its own.
class TrainUnderALauncher : public Train {
 protected:
  Finished run_ranks(int ranks, const std::string& of_rank) {
    const std::string line = cat("exec ",
                                 program("lockstep").string(),
                                 " train ",
                                 (*shared_ / "run.toml").string(),
                                 " --out ",
                                 (folder_ / "a").string(),
                                 " ",
                                 of_rank);
    return test::run(
        {.words = {program("lockstep").string(), "run", "-n", cat(ranks), "--", "sh", "-c", line},
         .timeout = std::chrono::seconds(60)});
  }
};

TEST_F(TrainUnderALauncher, RanksThatWereStartedDifferentlyAreToldApart) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"--set optimizer.lr=0.$((RANK+1))", "optimizer.lr"},
      {"--set optimizer.clip=$((RANK+1))", "optimizer.clip"},
      {"--set optimizer.weight_decay=0.$((RANK+1))", "optimizer.weight_decay"},
      {"--set model.dropout=0.$((RANK+1))", "model.dropout"},
      {"--steps $((RANK+1))", "--steps"}};
  for (const auto& [words, key] : table) {
    const Finished run = run_ranks(2, words);
    EXPECT_EQ(run.status, 5) << words << run.err;
    EXPECT_THAT(run.err, HasSubstr(cat(key, ": ranks were started with different values")));
    EXPECT_THAT(run.err,
                testing::ContainsRegex("expected [^ ]*1[^ ]* \\(rank 0\\), found [^ ]*2"
                                       "[^ ]* \\(rank 1\\)"));
    EXPECT_FALSE(fs::exists(folder_ / "a")) << words;
  }
}

TEST_F(TrainUnderALauncher, TellsOnceThatItsOwnNumberOfRanksHasNoEffect) {
  const Finished run = run_ranks(2, "-n 3 --steps 1");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("--nproc-per-node has no effect"));
  EXPECT_EQ(run.err.find("no effect"), run.err.rfind("no effect"));
}

TEST_F(Train, ACheckpointOfAnotherModelLeavesNothingEither) {
  ASSERT_EQ(train(1, "a", {"--steps", "1"}).status, 0);
  const Finished run =
      train(2, "b", {"--resume", (folder_ / "a").string(), "--set", "model.width=24"});
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_FALSE(fs::exists(folder_ / "b"));
}

TEST_F(Train, ARunDirectoryBelongsToTheRunThatIsAlive) {
  const std::vector<std::string> endless = {"--steps", "100000000", "--set", "checkpoint.every=1"};
  std::vector<Running> two;
  two.emplace_back(command(2, "a", endless));
  two.emplace_back(command(1, "a", endless));
  const auto saved = [&](Running& run) {
    return run.wait_for("step 1: saved", std::chrono::seconds(20));
  };
  const bool first_has_it = saved(two[0]);
  ASSERT_NE(first_has_it, saved(two[1])) << two[0].printed() << two[1].printed();
  EXPECT_THAT(two[first_has_it ? 1 : 0].printed(),
              HasSubstr("the run directory is in use by pid "));

  const Finished resumed = train(1, "a", {"--resume"});
  EXPECT_EQ(resumed.status, 3) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("the run directory is in use by pid "));
  Running& alive = two[first_has_it ? 0 : 1];
  alive.signal(SIGTERM);
  EXPECT_EQ(alive.wait(std::chrono::seconds(30)).status, 143);
  EXPECT_EQ(train(1, "a", {"--resume", "--steps", "1"}).status, 0);
}

TEST_F(Train, ResumingIntoAFileThatIsNoMetricsIsRefused) {
  ASSERT_EQ(train(1, "a", {"--steps", "2"}).status, 0);
  const fs::path notes = folder_ / "notes";
  write_file(notes, "my notes\nof last week\n");
  const Finished run = train(1, "a", {"--resume", "--metrics", notes.string()});
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("line 1: it is no line of metrics"));
  EXPECT_EQ(read_file(notes), "my notes\nof last week\n");
}

TEST_F(Train, ResumingKeepsTheLogsOfTheFirstPart) {
  ASSERT_EQ(train(2, "a", {"--steps", "2"}).status, 0);
  ASSERT_EQ(train(1, "a", {"--resume", "--steps", "3"}).status, 0);
  const fs::path logs = folder_ / "a" / "logs";
  EXPECT_THAT(read_file(logs / "attempt-0" / "rank-0.log"), HasSubstr("step 2/2"));
  EXPECT_TRUE(fs::exists(logs / "attempt-0" / "rank-1.log"));
  EXPECT_THAT(read_file(logs / "attempt-1" / "rank-0.log"), HasSubstr("step 3/3"));
  EXPECT_FALSE(fs::exists(logs / "attempt-1" / "rank-1.log"));
}

TEST_F(Train, AFullDiskUnderTheMetricsEndsTheRunAndItGoesOnWhenThereIsSpace) {
  const fs::path disk = folder_ / "disk";
  fs::create_directories(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=4k") != 0)
    GTEST_SKIP() << "mounting a small disk needs root";
  const std::vector<std::string> words = {"--metrics",
                                          (disk / "m.jsonl").string(),
                                          "--set",
                                          "checkpoint.every=3",
                                          "--set",
                                          "train.steps=30"};
  const Finished run = train(2, "a", words);
  const std::string written = read_file(disk / "m.jsonl");
  ::mount("tmpfs", disk.c_str(), "tmpfs", MS_REMOUNT, "size=64k");
  std::vector<std::string> again = words;
  again.emplace_back("--resume");
  const Finished resumed = train(2, "a", again);
  const std::string whole = read_file(disk / "m.jsonl");
  ::umount(disk.c_str());
  EXPECT_EQ(run.status, 7) << run.out << run.err;
  EXPECT_THAT(run.err, HasSubstr("m.jsonl: a line of metrics cannot be written"));
  EXPECT_THAT(run.err, HasSubstr("Free space"));
  EXPECT_LE(written.size(), 4096U);
  ASSERT_EQ(resumed.status, 0) << resumed.out << resumed.err;
  const auto lines = split(trim(whole), '\n');
  ASSERT_EQ(lines.size(), 30U);
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(Json::parse(lines[i]).at("step"), i + 1);
}

struct BadInput {
  std::vector<std::string> more;
  int status;
  std::string text;
};

TEST_F(Train, BadInputIsRefusedWithWhatToDoAndLeavesNothing) {
  const fs::path cut = folder_ / "cut.tokens";
  fs::copy_file(*shared_ / "train.tokens", cut);
  fs::resize_file(cut, fs::file_size(cut) - 5);
  const fs::path damaged = folder_ / "damaged.tokens";
  std::string tokens = read_file(*shared_ / "train.tokens");
  tokens[tokens.size() - 3] ^= 1;
  write_file(damaged, tokens);
  const std::vector<BadInput> table = {
      {{"--set", "model.widht=8"}, 3, "width"},
      {{"--set", "train.steps=many"}, 3, "train.steps"},
      {{"--set", "data.train=[\"/no/such/file\"]"}, 7, "/no/such/file"},
      {{"--set", cat("data.train=[\"", cut.string(), "\"]")}, 7, cut.string()},
      {{"--set", "model.context=100000", "--set", "batch.sequence=90000"}, 3, "90000"},
      {{"--set", "batch.sequence=64"}, 3, "batch.sequence"},
      {{"--set", "batch.global=13"}, 3, "13"},
      {{"--set", "model.vocab=100"}, 3, "model.vocab"},
      {{"--resume"}, 7, "no such folder"},
      {{"--resume", "/no/such/run"}, 7, "/no/such/run"},
      {{"--steps", "-1"}, 2, "--steps"},
      {{"--set", cat("data.train=[\"", damaged.string(), "\"]")}, 7, damaged.string()},
      {{"--metrics", (*shared_ / "text").string()}, 3, "the file is there already"},
      {{"--trace", (*shared_ / "text").string()}, 3, "is no trace"},
      {{"--set", "optimizer.eps=0"}, 3, "optimizer.eps"},
      {{"--set", "optimizer.betas=[0.9]"}, 3, "optimizer.betas"},
      {{"--set", "optimizer.group=[{match=\"*.biass\", lr=0.1}]"}, 3, "*.biass"},
      {{"--set", "data.valid=[]", "--set", "train.eval_every=2"}, 3, "train.eval_every"},
      {{"--set", "data.valid=[]", "--set", "checkpoint.keep_best=true"}, 3, "keep_best"},
      {{"--set", "lr_schedule.decay=7"}, 3, "decay"},
      {{"--set", "model.heads=3"}, 3, "heads"},
      {{"--metrics", (folder_ / "none" / "m").string()}, 7, "its folder is not there"},
      {{"--trace", (folder_ / "none" / "t").string()}, 7, "its folder is not there"},
      {{"--set", "checkpoint.keep=0"}, 3, "keep"},
      {{"--stepz", "3"}, 2, "--steps"},
  };
  for (const BadInput& bad : table) {
    const Finished run = train(2, "bad", bad.more);
    EXPECT_EQ(run.status, bad.status) << join(bad.more, " ") << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(bad.text)) << join(bad.more, " ");
    EXPECT_LT(run.seconds, 5);
    EXPECT_FALSE(fs::exists(folder_ / "bad")) << join(bad.more, " ");
  }
}

}  // namespace
}  // namespace lockstep::test
