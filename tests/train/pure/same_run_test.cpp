// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/same_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/config/load.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;

/// What rank `rank` says when the ranks hold `all`; the texts travel as they would.
std::string complaint(const std::vector<RunValues>& all, std::size_t rank) {
  std::vector<std::string> told(2);  // digests, then whole texts
  std::vector<std::vector<std::string>> heard(2);
  for (const RunValues& mine : all) {
    std::size_t round = 0;
    try {
      check_same_run(mine, 0, [&](std::string_view text, std::string_view) {
        heard[round++].emplace_back(text);
        // Pretend that somebody differs, so that the whole text is sent too.
        return round == 1 ? std::vector<std::string>{"a", "b"}
                          : std::vector<std::string>(2, std::string(text));
      });
    } catch (const Error&) {
      ADD_FAILURE() << "equal texts were refused";
    }
  }
  std::size_t round = 0;
  try {
    check_same_run(all[rank], static_cast<int>(rank), [&](std::string_view, std::string_view) {
      return heard[round++];
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Mismatch);
    return error.what();
  }
  EXPECT_EQ(round, 1U) << "the whole text travels only where ranks differ";
  return "none";
}

RunValues with(std::string_view text) { return values_of(parse_config(text, "run.toml")); }

TEST(SameRun, EqualRanksExchangeADigestOnly) {
  const RunValues values = with("[optimizer]\nlr = 0.5\n");
  EXPECT_EQ(complaint({values, values, values}, 1), "none");
}

TEST(SameRun, NamesTheFirstDifferentKeyBothValuesAndBothRanks) {
  const RunValues one = with("[optimizer]\nlr = 0.5\nclip = 1.0\n");
  const RunValues two = with("[optimizer]\nlr = 0.25\nclip = 2.0\n");
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const std::string text = complaint({one, one, two}, rank);
    EXPECT_THAT(text, HasSubstr("optimizer.lr"));
    EXPECT_THAT(text, HasSubstr("expected 0.5 (rank 0), found 0.25 (rank 2)"));
  }
}

TEST(SameRun, AValueThatOneRankLacksAndOneOfAGroupAreDifferences) {
  const RunValues plain = with("");
  EXPECT_THAT(complaint({plain, with("[optimizer]\nclip = 2.0\n")}, 0),
              HasSubstr("optimizer.clip: ranks were started with different values; expected "
                        "nothing (rank 0), found 2.0 (rank 1)"));
  EXPECT_THAT(complaint({with("[[optimizer.group]]\nmatch = \"*.bias\"\nlr = 0.5\n"),
                         with("[[optimizer.group]]\nmatch = \"*.bias\"\nlr = 0.75\n")},
                        1),
              HasSubstr("optimizer.group[0].lr"));
  RunValues longer = plain;
  longer.emplace_back("--steps", "9");
  EXPECT_THAT(complaint({plain, longer}, 0), HasSubstr("--steps"));
}

}  // namespace
}  // namespace lockstep::train
