// SPDX-License-Identifier: Apache-2.0
#include "lockstep/strategy/pure/plan_run.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/config/load.h"

#include "support/complaint.h"

namespace lockstep::strategy {
namespace {

using test::complaint;
using testing::HasSubstr;

Resolved run_of(std::string_view more, std::int64_t ranks) {
  return resolve(
      parse_config(cat("[model]\npreset = \"tiny\"\n[batch]\nmicro = 3\naccumulation = 2\n"
                       "[optimizer]\nlr = 0.5\n",
                       more),
                   "run.toml"),
      ranks);
}

TEST(Horizon, EndsAtTheEarliestOfStepsDataAndStop) {
  struct Case {
    const char* steps;
    std::optional<std::int64_t> data, stop;
    std::int64_t schedule, last;
  };
  const std::vector<Case> table = {
      {"steps = 10", {}, {}, 10, 10},
      {"steps = 10", 7, {}, 7, 7},
      {"steps = 10", 12, {}, 10, 10},
      {"steps = 10", {}, 4, 10, 4},    // stops early, and the schedule stays that of the whole run
      {"steps = 10", 7, 9, 7, 7},      // there is no data for more
      {"steps = 10", {}, 25, 10, 25},  // a resumed run may go past its horizon
      {"log_every = 1", 7, {}, 7, 7},
      {"log_every = 1", {}, 6, 6, 6},
      {"log_every = 1", 7, 3, 7, 3}};
  for (const Case& c : table) {
    const Horizon horizon = horizon_of(run_of(cat("[train]\n", c.steps, "\n"), 1), c.data, c.stop);
    EXPECT_EQ(horizon.steps, c.schedule) << c.steps << " " << c.data.value_or(-1);
    EXPECT_EQ(horizon.schedule.steps, c.schedule);
    EXPECT_EQ(horizon.last_step, c.last) << c.steps << " " << c.stop.value_or(-1);
  }
}

TEST(Horizon, IsRefusedWhereNothingSaysHowLongOrTheScheduleDoesNotFit) {
  EXPECT_THAT(complaint(Fault::Config, [] { horizon_of(run_of("", 1), {}, {}); }),
              HasSubstr("nothing says how long to train"));
  const Resolved falls =
      run_of("[lr_schedule]\nname = \"linear\"\nwarmup = 4\ndecay = 5\n[train]\nsteps = 10\n", 1);
  EXPECT_EQ(horizon_of(falls, {}, {}).schedule.decay, 5);
  EXPECT_THAT(complaint(Fault::Config, [&] { horizon_of(falls, 8, {}); }), HasSubstr("decay"));
}

TEST(Rates, GrowWithTheDataParallelSizeOrItsRoot) {
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    const auto ratio = [&](const char* word) {
      return lr_ratio(run_of(
          cat("[lr_schedule]\nscale_with_batch = \"", word, "\"\n[train]\nsteps = 9\n"), ranks));
    };
    EXPECT_EQ(ratio("none"), 1);
    EXPECT_DOUBLE_EQ(ratio("linear"), static_cast<double>(ranks));
    EXPECT_DOUBLE_EQ(ratio("sqrt"), std::sqrt(static_cast<double>(ranks)));
  }
  const Resolved linear =
      run_of("[lr_schedule]\nscale_with_batch = \"linear\"\n[train]\nsteps = 9\n", 3);
  EXPECT_DOUBLE_EQ(horizon_of(linear, {}, {}).schedule.base, 1.5);
}

TEST(Groups, TakeTheRatioWhereTheySayARateAndMustMatchTheModel) {
  const Resolved run = run_of(
      "[[optimizer.group]]\nmatch = \"*.bias\"\nlr = 0.25\n[[optimizer.group]]\nmatch = "
      "\"layers.*\"\nweight_decay = 0.0\n",
      1);
  const auto groups = groups_of(run.config, 3);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_DOUBLE_EQ(groups[0].lr.value(), 0.75);
  EXPECT_FALSE(groups[1].lr.has_value());
  EXPECT_EQ(groups[1].weight_decay, 0.0);
  const ModelSpec spec = model_of(run.config);
  EXPECT_NO_THROW(check_groups(run.config, spec));
  const Resolved wrong = run_of("[[optimizer.group]]\nmatch = \"*.biass\"\nlr = 0.25\n", 1);
  EXPECT_THAT(complaint(Fault::Config, [&] { check_groups(wrong.config, spec); }),
              HasSubstr("*.biass"));
}

TEST(Sequence, IsTheContextOrLess) {
  Config config = run_of("", 1).config;
  config.model.context = 48;
  const ModelSpec spec = model_of(config);
  EXPECT_EQ(sequence_of(config, spec), 48);
  config.batch.sequence = 31;
  EXPECT_EQ(sequence_of(config, spec), 31);
  config.batch.sequence = 49;
  EXPECT_THAT(complaint(Fault::Config, [&] { sequence_of(config, spec); }),
              HasSubstr("at most 48"));
}

TEST(Sampling, FollowsTheConfigurationAndDealsToEveryRank) {
  const Resolved run =
      run_of("[data]\nshuffle = false\ndrop_last = false\n[train]\nseed = 9\nepochs = 2\n", 4);
  const SamplerOptions options = train_sampling(run.config, 101);
  EXPECT_EQ(options.num_samples, 101);
  EXPECT_EQ(options.order, Order::Sequential);
  EXPECT_EQ(options.tail, Tail::Repeat);
  EXPECT_EQ(options.seed, 9);
  EXPECT_EQ(options.num_epochs, 2);
  const Dealing dealing = dealing_of(run, 3);
  EXPECT_EQ(dealing.rank, 3);
  EXPECT_EQ(dealing.num_ranks, 4);
  EXPECT_EQ(dealing.micro, 3);
  EXPECT_EQ(dealing.accumulation, 2);
  // 101 samples in steps of 24, the last of each epoch filled up: 5 steps, twice.
  EXPECT_EQ(steps_left_in(DistributedSampler(options, dealing)), 10);
  EXPECT_EQ(steps_left_in(DistributedSampler(train_sampling(run_of("", 4).config, 101), dealing)),
            std::nullopt);
}

}  // namespace
}  // namespace lockstep::strategy
