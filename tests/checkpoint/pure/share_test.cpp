// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Holding> model_of(int layers) {
  std::vector<Holding> list;
  for (int i = 0; i < layers; ++i) {
    const std::vector<std::int64_t> shape = {10 + i, 7};
    list.push_back({.name = cat("layers.", i, ".weight"), .shape = shape, .part = whole(shape)});
  }
  return list;
}

TEST(ShareOut, ReplicasWriteEachTensorOnceAndAboutTheSameBytes) {
  for (const std::size_t ranks : {1U, 2U, 3U, 5U}) {
    const std::vector<std::vector<Holding>> holdings(ranks, model_of(23));
    const auto writes = share_out(holdings);
    std::vector<int> written(23, 0);
    std::vector<std::int64_t> bytes(ranks, 0);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (const std::size_t i : writes[rank]) {
        ++written[i];
        bytes[rank] += holdings[rank][i].part.size() * 4;
      }
    }
    EXPECT_THAT(written, testing::Each(1));
    EXPECT_LE(*std::max_element(bytes.begin(), bytes.end()) -
                  *std::min_element(bytes.begin(), bytes.end()),
              33 * 7 * 4);
    EXPECT_EQ(index_of(holdings, writes).entries.size(), 23U);
  }
}

TEST(ShareOut, ShardsAreWrittenByTheirOnlyHolder) {
  Part first = whole({10});
  first.end = 5;
  Part second = whole({10});
  second.begin = 5;
  const std::vector<std::vector<Holding>> holdings = {
      {{.name = "w", .shape = {10}, .part = first}},
      {{.name = "w", .shape = {10}, .part = second}}};
  const auto writes = share_out(holdings);
  EXPECT_THAT(writes, ElementsAre(ElementsAre(0), ElementsAre(0)));
  const Index index = index_of(holdings, writes);
  EXPECT_EQ(index.find("w")->pieces[1].file, "rank-00001.safetensors");
  EXPECT_THROW(index_of({holdings[0]}, {writes[0]}), Error);
}

TEST(ShareOut, TwoPartsOfOneTensorGetKeysOfTheirOwn) {
  Part first = whole({10});
  first.end = 5;
  Part second = whole({10});
  second.begin = 5;
  const std::vector<Holding> list = {{.name = "w", .shape = {10}, .part = first},
                                     {.name = "w", .shape = {10}, .part = second}};
  EXPECT_THAT(keys_of(list, {0, 1}), ElementsAre("w", "w#1"));
}

TEST(ShareOut, NamesTheRanksThatDisagree) {
  const std::vector<std::vector<Holding>> holdings = {
      {{.name = "w", .shape = {10}, .part = whole({10})}},
      {{.name = "w", .shape = {12}, .part = whole({12})}}};
  try {
    share_out(holdings);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Mismatch);
    EXPECT_THAT(e.what(), HasSubstr("F32 [10] (rank 0), found F32 [12] (rank 1)"));
  }
}

TEST(ShareOut, HoldingsTravelAsText) {
  const auto list = model_of(3);
  const auto back = parse_holdings(to_text(list));
  ASSERT_EQ(back.size(), 3U);
  EXPECT_EQ(back[2].name, "layers.2.weight");
  EXPECT_EQ(back[2].part, list[2].part);
}

std::vector<std::string> wrapped(const std::vector<std::string>& names, int wrappers) {
  std::vector<std::string> out;
  for (std::string name : names) {
    const std::size_t at =
        name.starts_with("optimizer.") ? std::string("optimizer.exp_avg.").size() : 0;
    for (int i = 0; i < wrappers; ++i)
      name.insert(at, "module.");
    out.push_back(name);
  }
  return out;
}

TEST(MatchNames, AllNumbersOfWrappersAtSaveAndLoadMeet_CKP_01) {
  const std::vector<std::string> names = {"fc.weight", "fc.bias", "optimizer.exp_avg.fc.weight"};
  for (int saved = 0; saved <= 2; ++saved) {
    for (int loading = 0; loading <= 2; ++loading) {
      const auto match = match_names(wrapped(names, loading), wrapped(names, saved));
      EXPECT_TRUE(match.missing.empty()) << saved << " " << loading;
      EXPECT_TRUE(match.unexpected.empty());
      EXPECT_EQ(match.found, wrapped(names, saved));
    }
  }
}

TEST(MatchNames, ASubmoduleThatIsCalledModuleIsLeftAlone_CKP_01) {
  const std::vector<std::string> names = {"module.weight", "module.module.weight", "head.weight"};
  const auto match = match_names(names, names);
  EXPECT_EQ(match.found, names);
  EXPECT_TRUE(match.unexpected.empty());
}

TEST(MatchNames, ListsBothDirections_CKP_02) {
  const auto match = match_names({"a", "b", "c"}, {"a", "b", "x"});
  EXPECT_THAT(match.missing, ElementsAre("c"));
  EXPECT_THAT(match.unexpected, ElementsAre("x"));
  EXPECT_THAT(match.found, ElementsAre("a", "b", ""));
}

}  // namespace
}  // namespace lockstep::checkpoint
