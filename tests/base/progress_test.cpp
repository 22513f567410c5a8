// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

const Progress kSome = {.done = 40, .total = 200, .figures = "loss 2.51", .seconds_left = 12};

TEST(ProgressBar, TellsStepShareFiguresAndTimeLeft) {
  const std::string bar = progress_bar(kSome, 100);
  EXPECT_THAT(bar, HasSubstr("step 40/200 [####................] 20%, loss 2.51, "));
  EXPECT_THAT(bar, HasSubstr(" left"));
  EXPECT_EQ(progress_bar(kSome, 30).size(), 30U);
}

TEST(ProgressBar, IsFullAtTheEndAndEmptyAtTheStart) {
  EXPECT_THAT(progress_bar({.done = 7, .total = 7}, 80), HasSubstr("[####################] 100%"));
  EXPECT_THAT(progress_bar({.done = 0, .total = 7}, 80), HasSubstr("[....................] 0%"));
  EXPECT_THAT(progress_bar({.done = 0, .total = 0}, 80), HasSubstr("0/0"));
}

TEST(TimeLeft, IsUnknownBeforeTheFirstStepThenFollowsTheMean) {
  TimeLeft left;
  EXPECT_LT(left.of(10), 0);
  for (int i = 0; i < 50; ++i)
    left.add(0.5);
  EXPECT_NEAR(left.of(10), 5.0, 1e-9);
  left.add(1.5);
  EXPECT_GT(left.of(10), 5.0);
}

TEST(ProgressDisplay, PrintsLinesWithoutControlCharactersWhenPiped) {
  std::string out;
  ProgressDisplay display(
      ProgressDisplay::Kind::Lines, 80, [&](std::string_view text) { out += text; });
  display.show(kSome, 0.0);
  display.message("saved");
  display.finish();
  EXPECT_THAT(out, HasSubstr("step 40/200, loss 2.51"));
  EXPECT_THAT(out, Not(HasSubstr("\r")));
  EXPECT_THAT(out, HasSubstr("\nsaved\n"));
}

TEST(ProgressDisplay, RedrawsAtMostTenTimesASecondAndAtTheEnd) {
  int drawn = 0;
  ProgressDisplay display(ProgressDisplay::Kind::Bar, 80, [&](std::string_view) { ++drawn; });
  for (int i = 1; i <= 100; ++i)
    display.show({.done = i, .total = 100}, i * 0.01);
  EXPECT_LE(drawn, 12);
  EXPECT_GE(drawn, 9);
}

}  // namespace
}  // namespace lockstep
