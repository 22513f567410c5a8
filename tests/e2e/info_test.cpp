// SPDX-License-Identifier: Apache-2.0
// What `lockstep info` tells of ranks: alone, under a launcher, and under a batch system.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

#include "e2e/run_support.h"
#include "support/process.h"

namespace lockstep::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

Command info(const std::vector<std::string>& options, int ranks) {
  Command command;
  command.words = {program("lockstep").string()};
  if (ranks > 0) {
    for (const std::string& word : {std::string("run"),
                                    std::string("-n"),
                                    cat(ranks),
                                    std::string("--"),
                                    program("lockstep").string()})
      command.words.push_back(word);
  }
  command.words.emplace_back("info");
  command.words.insert(command.words.end(), options.begin(), options.end());
  return command;
}

// Only what the batch system sets.
Command under_slurm(const std::vector<std::string>& options) {
  Command command = info(options, 0);
  command.environment = {
      {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}};
  return command;
}

TEST(Info, GivesALineOfEachRankUnderALauncher) {
  for (const int size : {2, 3}) {
    const Finished end = run(info({"--mesh", cat("dp_replicate=", size)}, size));
    ASSERT_EQ(end.status, 0) << end.err;
    for (int rank = 0; rank < size; ++rank) {
      EXPECT_EQ(
          count(end.out,
                cat("rank ", rank, " of ", size, " (local rank ", rank, " of ", size, "; source ")),
          1U)
          << end.out;
    }
    EXPECT_EQ(count(end.out, "; devices: cpu"), static_cast<std::size_t>(size)) << end.out;
  }
}

TEST(Info, GivesOneDocumentWithAllRanksUnderALauncher) {
  const Finished end = run(info({"--json"}, 3));
  ASSERT_EQ(end.status, 0) << end.err;
  std::string text;  // without the launcher's mark of the rank
  for (const std::string& line : split(end.out, '\n')) {
    ASSERT_TRUE(line.empty() || line.starts_with("[0] ")) << "not of rank 0: " << line;
    text += line.empty() ? "" : line.substr(4) + "\n";
  }
  ASSERT_TRUE(json::accept(text)) << text;
  const json document = json::parse(text);
  EXPECT_EQ(document.at("mesh").at("dp_replicate"), 3);
  ASSERT_EQ(document.at("ranks").size(), 3U);
  for (int rank = 0; rank < 3; ++rank) {
    const json& one = document.at("ranks")[static_cast<std::size_t>(rank)];
    EXPECT_EQ(one.at("rank"), rank);
    EXPECT_EQ(one.at("world_size"), 3);
    EXPECT_EQ(one.at("coordinates").at("dp_replicate"), rank);
    EXPECT_FALSE(one.at("devices").empty());
  }
}

TEST(Info, TellsOfOneRankAlone) {
  const Finished text = run(info({}, 0));
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("rank 0 of 1 (local rank 0 of 1"));
  EXPECT_EQ(count(text.out, "\n"), 1U);
  const Finished end = run(info({"--json"}, 0));
  ASSERT_EQ(end.status, 0) << end.err;
  const json document = json::parse(end.out);
  ASSERT_EQ(document.at("ranks").size(), 1U);
  EXPECT_EQ(document.at("ranks")[0].at("world_size"), 1);
}

TEST(Info, BelievesTheBatchSystem_LAU_13) {
  const Finished text = run(under_slurm({}));
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("rank 3 of 4 (local rank 1 of "), HasSubstr("source Slurm")));
  EXPECT_THAT(text.err, HasSubstr("MASTER_ADDR"));
  const Finished end = run(under_slurm({"--json"}));
  const json rank = json::parse(end.out).at("ranks").at(0);
  EXPECT_EQ(rank.at("rank"), 3);
  EXPECT_EQ(rank.at("local_rank"), 1);
  EXPECT_EQ(rank.at("world_size"), 4);
  EXPECT_THAT(rank.at("source").get<std::string>(), HasSubstr("Slurm"));
}

}  // namespace
}  // namespace lockstep::test
