// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/pure/sampler.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/pure/split.h"

#include "support/complaint.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Ids = std::vector<std::int64_t>;

Ids flat(const Step& step) {
  Ids ids;
  for (const Ids& batch : step.micro_batches)
    ids.insert(ids.end(), batch.begin(), batch.end());
  return ids;
}

// The samplers of all ranks, stepped together.
class AllRanks {
 public:
  AllRanks(const SamplerOptions& options, Dealing dealing) {
    for (dealing.rank = 0; dealing.rank < dealing.num_ranks; ++dealing.rank)
      samplers_.emplace_back(options, dealing);
  }
  DistributedSampler& operator[](std::size_t rank) { return samplers_[rank]; }
  void restore(const SamplerState& state) {
    for (DistributedSampler& sampler : samplers_)
      sampler.restore(state);
  }
  void set_epoch(std::int64_t epoch) {
    for (DistributedSampler& sampler : samplers_)
      sampler.set_epoch(epoch);
  }
  /// Ids of each rank; empty at the end. All ranks agree on the number of micro batches and on the
  /// state.
  std::vector<Ids> next() {
    std::vector<Ids> ids;
    std::vector<Step> steps;
    for (DistributedSampler& sampler : samplers_) {
      auto step = sampler.next();
      if (step)
        steps.push_back(*step);
    }
    EXPECT_TRUE(steps.empty() || steps.size() == samplers_.size())
        << "ranks end at different steps";
    for (const Step& step : steps) {
      EXPECT_EQ(step.after, steps[0].after);
      EXPECT_EQ(step.micro_batches.size(), steps[0].micro_batches.size());
      ids.push_back(flat(step));
    }
    return ids;
  }
  /// All ids of the epoch under way, over all ranks, step by step.
  Ids rest_of_epoch() {
    const std::int64_t epoch = samplers_[0].state().epoch;
    Ids all;
    while (samplers_[0].state().epoch == epoch) {
      for (const Ids& ids : next())
        all.insert(all.end(), ids.begin(), ids.end());
    }
    return all;
  }

 private:
  std::vector<DistributedSampler> samplers_;
};

Ids sorted(Ids ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

Ids range(std::int64_t size) {
  Ids ids(static_cast<std::size_t>(size));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// E1: any size, ranks, batch, accumulation, order and tail.
TEST(Sampler, EveryEpochCoversTheDataAsTheTailSays) {
  for (const std::int64_t samples : {1, 2, 3, 10, 24, 37, 100}) {
    for (const std::int64_t ranks : {1, 2, 3, 4, 7}) {
      for (const std::int64_t micro : {1, 2, 5}) {
        for (const std::int64_t accumulation : {1, 3}) {
          for (const Order order : {Order::Sequential, Order::Shuffled}) {
            const Dealing dealing{.num_ranks = ranks, .micro = micro, .accumulation = accumulation};
            const std::int64_t global = dealing.global();
            SCOPED_TRACE(cat(samples,
                             " samples, ",
                             ranks,
                             " ranks, ",
                             micro,
                             " micro, ",
                             accumulation,
                             " accumulation"));

            AllRanks once({.num_samples = samples, .order = order, .tail = Tail::Once, .seed = 3},
                          dealing);
            EXPECT_EQ(sorted(once.rest_of_epoch()), range(samples));
            EXPECT_EQ(sorted(once.rest_of_epoch()), range(samples));

            AllRanks repeat(
                {.num_samples = samples, .order = order, .tail = Tail::Repeat, .seed = 3}, dealing);
            const Ids padded = repeat.rest_of_epoch();
            const std::int64_t steps = (samples + global - 1) / global;
            EXPECT_EQ(std::ssize(padded), steps * global);
            for (std::int64_t id = 0; id < samples; ++id) {
              const std::int64_t times = std::count(padded.begin(), padded.end(), id);
              EXPECT_GE(times, steps * global / samples);
              EXPECT_LE(times, (steps * global + samples - 1) / samples);
            }

            if (samples < global)
              continue;
            AllRanks drop({.num_samples = samples, .order = order, .tail = Tail::Drop, .seed = 3},
                          dealing);
            const Ids dropped = drop.rest_of_epoch();
            EXPECT_EQ(std::ssize(dropped), samples / global * global);
            EXPECT_EQ(std::set<std::int64_t>(dropped.begin(), dropped.end()).size(),
                      dropped.size());
          }
        }
      }
    }
  }
}

TEST(Sampler, AStepHasTheSamplesOfTheSingleProcessWhateverTheRanks) {
  for (const Tail tail : {Tail::Drop, Tail::Repeat, Tail::Once}) {
    const SamplerOptions options{.num_samples = 100, .tail = tail, .seed = 11, .num_epochs = 3};
    for (const auto& [ranks, micro, accumulation] : std::vector<std::array<std::int64_t, 3>>{
             {2, 12, 1}, {3, 8, 1}, {4, 6, 1}, {4, 2, 3}, {1, 8, 3}, {2, 4, 3}}) {
      DistributedSampler single(options, {.micro = 24});
      AllRanks many(options, {.num_ranks = ranks, .micro = micro, .accumulation = accumulation});
      int steps = 0;
      while (const auto step = single.next()) {
        Ids all;
        for (const Ids& ids : many.next())
          all.insert(all.end(), ids.begin(), ids.end());
        EXPECT_EQ(sorted(all), sorted(flat(*step))) << ranks << " ranks, step " << steps;
        ++steps;
      }
      EXPECT_TRUE(many.next().empty());
      EXPECT_EQ(steps, tail == Tail::Drop ? 12 : 15);
    }
  }
}

TEST(Sampler, LeafKNPlusRTakesItsBlockOfTheStep) {
  const std::int64_t n = 3, micro = 2, accumulation = 2;
  for (std::int64_t r = 0; r < n; ++r) {
    DistributedSampler sampler({.num_samples = 24, .order = Order::Sequential},
                               {r, n, micro, accumulation});
    for (std::int64_t s = 0; s < 2; ++s) {
      const auto step = sampler.next();
      ASSERT_EQ(step->micro_batches.size(), 2U);
      for (std::int64_t k = 0; k < accumulation; ++k) {
        const std::int64_t first = s * 12 + (k * n + r) * micro;
        EXPECT_THAT(step->micro_batches[static_cast<std::size_t>(k)],
                    ElementsAre(first, first + 1));
      }
    }
  }
}

TEST(Sampler, EvaluationCountsEachSampleOnce_SMP_01) {
  AllRanks ranks(
      {.num_samples = 10, .order = Order::Sequential, .tail = Tail::Once, .num_epochs = 1},
      {.num_ranks = 4});
  int count = 0;
  int right = 0;
  for (auto step = ranks.next(); !step.empty(); step = ranks.next()) {
    for (const Ids& ids : step) {
      count += static_cast<int>(ids.size());
      right += static_cast<int>(
          std::count_if(ids.begin(), ids.end(), [](std::int64_t id) { return id > 1; }));
    }
  }
  EXPECT_EQ(count, 10);
  EXPECT_EQ(right, 8);
  AllRanks two({.num_samples = 21, .tail = Tail::Once}, {.num_ranks = 2});
  EXPECT_EQ(two.rest_of_epoch().size(), 21U);
  AllRanks wide({.num_samples = 21, .tail = Tail::Once}, {.num_ranks = 2, .micro = 16});
  EXPECT_EQ(wide.rest_of_epoch().size(), 21U);
}

TEST(Sampler, FewerSamplesThanRanksPadOrShareOrAreRefused_SMP_02) {
  const Dealing dealing{.num_ranks = 8};
  AllRanks pad({.num_samples = 3, .order = Order::Sequential, .tail = Tail::Repeat}, dealing);
  EXPECT_EQ(pad.rest_of_epoch(), (Ids{0, 1, 2, 0, 1, 2, 0, 1}));
  AllRanks evaluation({.num_samples = 3, .tail = Tail::Once}, dealing);
  EXPECT_EQ(evaluation.rest_of_epoch().size(), 3U);
  const auto make = [](std::int64_t samples, const Dealing& deal) {
    DistributedSampler({.num_samples = samples}, deal);
  };
  EXPECT_THAT(test::complaint(Fault::Config, [&] { make(3, dealing); }),
              HasSubstr("3 samples, 8 ranks"));
  EXPECT_THAT(test::complaint(Fault::Config,
                              [&] { make(11, {.num_ranks = 2, .micro = 3, .accumulation = 2}); }),
              HasSubstr("11 samples, 2 ranks"));
  EXPECT_THAT(test::complaint(Fault::Config, [&] { make(0, {}); }), HasSubstr("no samples"));
}

TEST(Sampler, EpochsAdvanceByThemselvesAndRepeatWithTheSeed_SMP_03) {
  for (const std::int64_t samples : {16, 33}) {
    const SamplerOptions options{
        .num_samples = samples, .tail = Tail::Once, .seed = 5, .num_epochs = 3};
    std::vector<Ids> orders;
    AllRanks ranks(options, {.num_ranks = 2});
    for (int epoch = 0; epoch < 3; ++epoch)
      orders.push_back(ranks.rest_of_epoch());
    EXPECT_EQ(std::set<Ids>(orders.begin(), orders.end()).size(), 3U);
    AllRanks again(options, {.num_ranks = 2});
    for (const Ids& order : orders)
      EXPECT_EQ(again.rest_of_epoch(), order);
  }
}

TEST(Sampler, AnEpochThatIsSetCountsAndAStaleCopyCannotBeSet_SMP_04) {
  static_assert(!std::is_copy_constructible_v<DistributedSampler> &&
                !std::is_copy_assignable_v<DistributedSampler>);
  std::set<Ids> orders;
  AllRanks ranks({.num_samples = 8, .seed = 1}, {.num_ranks = 2, .micro = 2});
  for (int epoch = 0; epoch < 3; ++epoch) {
    ranks.set_epoch(epoch);
    const Ids order = ranks.rest_of_epoch();
    EXPECT_EQ(sorted(order), range(8));
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3U);
  DistributedSampler owned = std::move(ranks[0]);
  EXPECT_THAT(test::complaint(Fault::Usage, [&] { ranks[0].set_epoch(1); }),
              HasSubstr("handed over"));
  owned.set_epoch(1);
  EXPECT_EQ(owned.state().epoch, 1);
}

TEST(Sampler, RanksWithDifferentSeedsAreFoundAtTheStart_SMP_05) {
  for (const std::int64_t other : {101, 7}) {
    std::vector<std::string> texts;
    const auto collect = [&texts](std::string_view mine) {
      texts.emplace_back(mine);
      return std::vector<std::string>{std::string(mine)};
    };
    const DistributedSampler first({.num_samples = 16, .seed = 100}, {.rank = 0, .num_ranks = 2});
    const DistributedSampler second({.num_samples = 16, .seed = other},
                                    {.rank = 1, .num_ranks = 2});
    check_same_sampling(first, collect);
    check_same_sampling(second, collect);
    for (const DistributedSampler* sampler : {&first, &second}) {
      const std::string text = test::complaint(Fault::Mismatch, [&] {
        check_same_sampling(*sampler, [&](std::string_view) { return texts; });
      });
      EXPECT_THAT(text, HasSubstr("seed 100"));
      EXPECT_THAT(text, HasSubstr(cat("seed ", other)));
      EXPECT_THAT(text, HasSubstr("(rank 1)"));
    }
  }
  const DistributedSampler alone({.num_samples = 16, .seed = 100}, {.num_ranks = 2});
  EXPECT_NO_THROW(check_same_sampling(
      alone, [](std::string_view mine) { return std::vector<std::string>(2, std::string(mine)); }));
}

TEST(Sampler, RefusesADealingThatDealsNothingWithItsNumbers) {
  struct Case {
    Dealing dealing;
    std::string text;
  };
  for (const Case& c : {Case{{.num_ranks = 17, .micro = 16 / 17}, "micro 0"},
                        Case{{.accumulation = -1}, "accumulation -1"},
                        Case{{.rank = 3, .num_ranks = 3}, "rank 3 of 3"},
                        Case{{.rank = -1}, "rank -1"},
                        Case{{.num_ranks = 0}, "of 0"}}) {
    EXPECT_THAT(test::complaint(Fault::Config,
                                [&] { DistributedSampler({.num_samples = 100}, c.dealing); }),
                HasSubstr(c.text));
  }
  DistributedSampler sampler({.num_samples = 4}, {});
  EXPECT_THAT(test::complaint(Fault::Usage, [&] { sampler.set_epoch(-2); }), HasSubstr("-2"));
  EXPECT_THAT(test::complaint(Fault::Usage, [&] { sampler.restore({.consumed = -3}); }),
              HasSubstr("sample -3"));
}

TEST(Sampler, ResumeInsideALaterEpochGoesOnExactly_SMP_08) {
  struct Case {
    std::int64_t samples, ranks, micro, accumulation;
    Tail tail;
    int done;
  };
  // The first stops in epoch 1 after the first of its 3 batches.
  for (const Case& c : {Case{12, 2, 2, 1, Tail::Drop, 4},
                        Case{37, 3, 2, 2, Tail::Repeat, 9},
                        Case{50, 4, 1, 3, Tail::Once, 7}}) {
    const SamplerOptions options{
        .num_samples = c.samples, .tail = c.tail, .seed = 9, .num_epochs = 4};
    const Dealing dealing{.num_ranks = c.ranks, .micro = c.micro, .accumulation = c.accumulation};
    AllRanks whole(options, dealing);
    for (int i = 0; i < c.done; ++i)
      whole.next();
    const SamplerState state = whole[0].state();
    EXPECT_GT(state.epoch, 0);
    EXPECT_GT(state.consumed, 0);
    AllRanks resumed(options, dealing);
    resumed.restore(state);
    EXPECT_EQ(resumed[0].steps_left(), whole[0].steps_left());
    for (auto expected = whole.next(); !expected.empty(); expected = whole.next())
      EXPECT_EQ(resumed.next(), expected);
    EXPECT_TRUE(resumed.next().empty());
  }
}

TEST(Sampler, TheEndOfAnEpochIsTheStartOfTheNext_SMP_09) {
  for (const std::int64_t samples : {12, 14}) {  // 14: two samples of each epoch are dropped
    const SamplerOptions options{.num_samples = samples, .seed = 2, .num_epochs = 3};
    const Dealing dealing{.num_ranks = 2, .micro = 2};
    DistributedSampler sampler(options, dealing);
    EXPECT_EQ(sampler.steps_left(), 9);
    for (int i = 0; i < 3; ++i)
      sampler.next();
    EXPECT_EQ(sampler.state(), (SamplerState{2, 1, 0}));
    DistributedSampler resumed(options, dealing);
    resumed.restore(sampler.state());
    int updates = 3;
    while (resumed.next())
      ++updates;
    EXPECT_EQ(updates, 9);
    EXPECT_NO_THROW(check_updates(updates, 9));
    EXPECT_THAT(test::complaint(Fault::Internal, [] { check_updates(6, 9); }),
                HasSubstr("expected 9 updates, found 6"));
  }
}

TEST(Sampler, AnotherNumberOfRanksTakesWhatIsLeft_SMP_10) {
  struct Case {
    std::int64_t samples, before, after, steps, left;
  };
  for (const Case& c : {Case{24, 4, 2, 3, 6}, Case{24, 2, 4, 6, 3}, Case{60, 3, 5, 10, 6}}) {
    const SamplerOptions options{.num_samples = c.samples, .seed = 4, .num_epochs = 1};
    AllRanks first(options, {.num_ranks = c.before});
    std::set<std::int64_t> seen;
    for (std::int64_t i = 0; i < c.steps; ++i) {
      for (const Ids& ids : first.next())
        seen.insert(ids.begin(), ids.end());
    }
    AllRanks second(options, {.num_ranks = c.after});
    second.restore(first[0].state());
    std::int64_t steps = 0;
    for (auto step = second.next(); !step.empty(); step = second.next(), ++steps) {
      for (const Ids& ids : step) {
        for (const std::int64_t id : ids)
          EXPECT_TRUE(seen.insert(id).second) << id << " twice";
      }
    }
    EXPECT_EQ(steps, c.left);
    EXPECT_EQ(std::ssize(seen), c.samples);
  }
}

TEST(Sampler, AStateOfAnotherSeedIsRefused) {
  DistributedSampler sampler({.num_samples = 8, .seed = 1}, {});
  EXPECT_THAT(test::complaint(Fault::Mismatch, [&] { sampler.restore({.seed = 2}); }),
              HasSubstr("expected seed 1, found seed 2"));
}

TEST(Sampler, TheSameOrderTwiceInARowIsWarnedOf) {
  const auto warned = [](Order order, std::int64_t second_epoch) {
    testing::internal::CaptureStderr();
    DistributedSampler sampler({.num_samples = 4, .order = order}, {});
    sampler.next();
    sampler.set_epoch(second_epoch);
    sampler.next();
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(warned(Order::Shuffled, 0), HasSubstr("epoch 0 begins a second time in a row"));
  EXPECT_EQ(warned(Order::Shuffled, 1), "");
  EXPECT_EQ(warned(Order::Sequential, 0), "");
}

TEST(Split, WorkersDrawDifferentlyAndRepeatably_SMP_06) {
  std::set<std::uint64_t> seeds;
  int count = 0;
  for (const std::int64_t base : {1, 2}) {
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      for (std::int64_t worker = 0; worker < 2; ++worker) {
        for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
          const Reader reader{rank, 3, worker, 2};
          const std::uint64_t seed = worker_seed(base, reader, epoch);
          EXPECT_EQ(seed, worker_seed(base, reader, epoch));
          for (std::int64_t batch = 0; batch < 3; ++batch)
            seeds.insert(batch_seed(seed, batch));
          count += 3;
        }
      }
    }
  }
  EXPECT_EQ(std::ssize(seeds), count);
}

TEST(Split, AStreamIsReadOnceByAllReadersTogether_SMP_07) {
  for (const auto& [ranks, workers, items] :
       std::vector<std::array<std::int64_t, 3>>{{2, 2, 12}, {3, 1, 7}, {2, 3, 25}}) {
    std::map<std::int64_t, int> times;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      for (std::int64_t worker = 0; worker < workers; ++worker) {
        for (std::int64_t item = 0; item < items; ++item)
          times[item] += Reader{rank, ranks, worker, workers}.takes(item) ? 1 : 0;
      }
    }
    for (const auto& [item, count] : times)
      EXPECT_EQ(count, 1) << "item " << item;
  }
}

}  // namespace
}  // namespace lockstep
