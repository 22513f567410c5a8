// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Text, CatJoinsWordsNumbersAndBools) {
  EXPECT_EQ(cat("a", 1, ' ', -2.5, std::string("b"), true), "a1 -2.5btrue");
}

TEST(Text, DoublesReadBackToTheSameBits) {
  for (const double value : {0.1, 1.0 / 3.0, 6.02214076e23, -1e-300})
    EXPECT_EQ(parse_double(cat(value)), value);
}

TEST(Text, NumbersWithARestAreNotNumbers) {
  EXPECT_FALSE(parse_int("12x"));
  EXPECT_FALSE(parse_int(""));
  EXPECT_FALSE(parse_double("1.5 "));
  EXPECT_EQ(parse_int("-7"), -7);
}

TEST(Text, NearestSuggestsOnlyWhatIsClose) {
  const std::vector<std::string> names = {"train", "compare", "schedule"};
  EXPECT_EQ(nearest("tarin", names), "train");
  EXPECT_EQ(nearest("shedule", names), "schedule");
  EXPECT_FALSE(nearest("xyzzy", names));
}

TEST(Text, SplitKeepsEmptyParts) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

TEST(Text, LongListsAreCutWithACount) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  EXPECT_EQ(cut_list(names, 2), "a, b and 2 more");
  EXPECT_EQ(cut_list(names, 4), "a, b, c, d");
}

TEST(Text, UnitsAreDecimal) {
  EXPECT_EQ(human_bytes(1.5e9), "1.50 GB");
  EXPECT_EQ(human_bytes(12), "12 B");
  EXPECT_EQ(human_seconds(0.0032), "3.2 ms");
  EXPECT_EQ(human_seconds(3725), "1 h 02 min");
}

}  // namespace
}  // namespace lockstep
