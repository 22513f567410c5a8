// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/optim/pure/groups.h"
#include "lockstep/optim/pure/lr_schedule.h"

namespace lockstep::optim {
namespace {

TEST(LrSchedule, WarmsUpInEqualStepsFromTheFirstStepOnUnderEveryName) {
  for (const LrScheduleRow& row : lr_schedules()) {
    const LrSchedule schedule{.name = std::string(row.name),
                              .base = 0.6,
                              .steps = 20,
                              .warmup = 3,
                              .decay = 5,
                              .min_lr = 0.06};
    check(schedule);
    EXPECT_DOUBLE_EQ(schedule.at(1), 0.2) << row.name;
    EXPECT_DOUBLE_EQ(schedule.at(2), 0.4) << row.name;
    EXPECT_DOUBLE_EQ(schedule.at(3), 0.6) << row.name;
    for (int step = 4; step <= 20; ++step)
      EXPECT_LE(schedule.at(step), schedule.at(step - 1) + 1e-15) << row.name;
    EXPECT_DOUBLE_EQ(schedule.at(20), row.name == "constant" ? 0.6 : 0.06) << row.name;
    EXPECT_DOUBLE_EQ(schedule.at(99), schedule.at(20)) << row.name;
  }
}

TEST(LrSchedule, FallsAsItsNameSays) {
  EXPECT_DOUBLE_EQ((LrSchedule{.name = "linear", .base = 1, .steps = 11}).at(6), 0.5);
  EXPECT_NEAR((LrSchedule{.name = "cosine", .base = 1, .steps = 13, .min_lr = 0.2}).at(5),
              0.2 + 0.8 * 0.75,
              1e-12);
  const LrSchedule wsd{.name = "wsd", .base = 1, .steps = 30, .warmup = 2, .decay = 10};
  EXPECT_DOUBLE_EQ(wsd.at(20), 1);
  EXPECT_DOUBLE_EQ(wsd.at(25), 0.5);
}

TEST(LrSchedule, FallsOverTheLastDecayStepsUnderEveryName) {
  for (const LrScheduleRow& row : lr_schedules()) {
    if (row.name == "constant")
      continue;
    LrSchedule schedule{.name = std::string(row.name),
                        .base = 0.8,
                        .steps = 24,
                        .warmup = 3,
                        .decay = 8,
                        .min_lr = 0.2};
    EXPECT_DOUBLE_EQ(schedule.at(16), 0.8) << row.name;
    EXPECT_LT(schedule.at(17), 0.8) << row.name;
    EXPECT_NEAR(schedule.at(20), 0.5, 1e-15) << row.name;
    EXPECT_DOUBLE_EQ(schedule.at(24), 0.2) << row.name;
    schedule.decay = 0;
    EXPECT_DOUBLE_EQ(schedule.at(24), 0.8) << row.name;
    schedule.decay.reset();  // all that follow the warm-up
    EXPECT_LT(schedule.at(4), 0.8) << row.name;
    EXPECT_DOUBLE_EQ(schedule.at(24), 0.2) << row.name;
    schedule.decay = 22;
    EXPECT_THROW(check(schedule), Error) << row.name;
  }
}

TEST(LrSchedule, TheFactorOfARateOfZeroIsThatOfAnyOther) {
  LrSchedule schedule{.name = "linear", .base = 0.5, .steps = 9, .warmup = 4};
  for (int step = 1; step <= 9; ++step) {
    schedule.base = 0.5;
    const double factor = schedule.factor(step);
    EXPECT_DOUBLE_EQ(factor, schedule.at(step) / 0.5);
    schedule.base = 0;
    EXPECT_DOUBLE_EQ(schedule.factor(step), factor);
    EXPECT_EQ(schedule.at(step), 0);
  }
}

TEST(LrSchedule, TellsEverythingThatCannotWorkAtOnce) {
  try {
    check({.name = "cosin", .base = -1, .steps = 10, .warmup = 11});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Config);
    for (const char* part : {"cosin", "did you mean 'cosine'", "-1", "11", "10 steps"}) {
      EXPECT_TRUE(contains(error.what(), part)) << part << " in " << error.what();
    }
  }
  EXPECT_THROW(check({.name = "linear"}), Error) << "no horizon";
}

TEST(LrSchedule, ScalesWithTheBatch) {
  EXPECT_DOUBLE_EQ(scaled_lr(0.1, BatchScaling::None, 96, 24), 0.1);
  EXPECT_DOUBLE_EQ(scaled_lr(0.1, BatchScaling::Linear, 96, 24), 0.4);
  EXPECT_DOUBLE_EQ(scaled_lr(0.1, BatchScaling::Sqrt, 96, 24), 0.2);
}

TEST(Groups, MatchGlobsOnWholeNames) {
  EXPECT_TRUE(glob_matches("*.bias", "layers.3.mlp.bias"));
  EXPECT_TRUE(glob_matches("layers.?.*norm*", "layers.3.attention_norm.weight"));
  EXPECT_TRUE(glob_matches("a*b*c", "aXbbYc"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_FALSE(glob_matches("*.bias", "layers.3.bias.extra"));
  EXPECT_FALSE(glob_matches("layers.?", "layers.12"));
  EXPECT_FALSE(glob_matches("", "x"));
}

TEST(Groups, GiveANameToTheFirstGroupThatMatchesAndRefuseEmptyOnes) {
  const std::vector<std::string> names = {"a.weight", "a.bias", "b.weight"};
  const std::vector<GroupOptions> groups = {{.match = "*.bias", .lr = 1},
                                            {.match = "a.*", .lr = 2}};
  EXPECT_EQ(assign_groups(names, groups), (std::vector<int>{1, 0, -1}));
  EXPECT_THROW(assign_groups(names, std::vector<GroupOptions>{{.match = "c.*"}}), Error);
}

}  // namespace
}  // namespace lockstep::optim
