// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/front/own_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

using testing::ElementsAre;

OwnRanks split(std::vector<std::string> words) { return split_own_ranks(words); }

TEST(OwnRanks, NumberOfRanksIsTakenOutInEverySpelling) {
  for (const std::vector<std::string>& flag : {std::vector<std::string>{"-n", "4"},
                                               std::vector<std::string>{"-n4"},
                                               std::vector<std::string>{"--nproc-per-node", "4"},
                                               std::vector<std::string>{"--nproc_per_node=4"}}) {
    std::vector<std::string> words = {"train", "a.toml"};
    words.insert(words.end(), flag.begin(), flag.end());
    words.insert(words.end(), {"--steps", "3"});
    const OwnRanks own = split(words);
    EXPECT_EQ(own.ranks, "4") << flag.front();
    EXPECT_THAT(own.arguments, ElementsAre("train", "a.toml", "--steps", "3"));
  }
}

TEST(OwnRanks, OneRankUnlessAsked) { EXPECT_EQ(split({"train", "a.toml"}).ranks, "1"); }

TEST(OwnRanks, RunDirectoryIsReadAndPassedOn) {
  const OwnRanks own = split({"train", "a.toml", "--out=runs/x", "--seed", "1"});
  EXPECT_EQ(own.out, "runs/x");
  EXPECT_THAT(own.arguments, ElementsAre("train", "a.toml", "--out", "runs/x", "--seed", "1"));
}

TEST(OwnRanks, HelpAndPrintedConfigurationStartNoRanks) {
  EXPECT_TRUE(split({"train", "--help"}).only_tells);
  EXPECT_TRUE(split({"train", "a.toml", "--print-config", "-n", "4"}).only_tells);
  EXPECT_FALSE(split({"train", "a.toml"}).only_tells);
}

TEST(OwnRanks, MissingValueIsRefused) { EXPECT_THROW(split({"train", "-n"}), Error); }

}  // namespace
}  // namespace lockstep::cli
