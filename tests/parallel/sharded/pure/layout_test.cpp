// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include <gtest/gtest.h>

#include "lockstep/base/bucket_bytes.h"
#include "lockstep/parallel/sharded/pure/agreement.h"
#include "lockstep/parallel/sharded/pure/gradient_plan.h"
#include "lockstep/parallel/sharded/pure/marks.h"
#include "lockstep/parallel/sharded/pure/usage_log.h"

namespace lockstep::sharded {
namespace {

std::vector<PlannedParameter> of_sizes(const std::vector<std::int64_t>& sizes) {
  std::vector<PlannedParameter> parameters;
  for (const std::int64_t size : sizes)
    parameters.push_back({.elements = size});
  return parameters;
}

std::int64_t bytes_of(const GradientPlan& plan, const Bucket& bucket) {
  return (bucket.end - bucket.begin) *
         plan.flats[static_cast<std::size_t>(bucket.flat)].element_bytes;
}

TEST(GradientPlan, StartsEveryParameterAtAMultipleOf64Bytes) {
  std::vector<PlannedParameter> parameters = of_sizes({3, 5, 2, 11, 1, 16, 17, 1000});
  for (const std::size_t odd : {1U, 4U, 6U})
    parameters[odd] = {.elements = parameters[odd].elements, .type = 1, .element_bytes = 8};
  parameters[2] = {.elements = 2, .type = 2, .element_bytes = 2, .exact_counts = false};
  const GradientPlan plan = plan_gradients(parameters, {.bucket_bytes = 256, .marks_elements = 30});
  ASSERT_EQ(plan.flats.size(), 3U);
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    EXPECT_EQ(plan.places[index].begin * parameters[index].element_bytes % 64, 0) << index;
    EXPECT_EQ(plan.places[index].elements, parameters[index].elements);
  }
}

TEST(GradientPlan, CoversEveryElementOnceByBucketsInReverseOrder_DDP_10) {
  const std::vector<PlannedParameter> parameters = of_sizes({3, 500, 2, 11, 70, 9000, 17});
  for (const std::int64_t cap : {1, 64, 129, 4000, 1'000'000}) {
    const GradientPlan plan =
        plan_gradients(parameters, {.bucket_bytes = cap, .marks_elements = 7});
    std::int64_t end = plan.flats[0].elements;
    int expected = static_cast<int>(parameters.size()) - 1;
    for (const Bucket& bucket : plan.buckets) {
      EXPECT_EQ(bucket.end, end) << "cap " << cap;
      end = bucket.begin;
      for (const int member : bucket.parameters)
        EXPECT_EQ(member, expected--);
      EXPECT_TRUE(bucket.parameters.size() == 1 || bytes_of(plan, bucket) <= cap);
    }
    EXPECT_EQ(end, plan.marks_end);
    EXPECT_EQ(expected, -1);
  }
}

TEST(GradientPlan, CutsEveryBucketInEqualPartsOfWhole64Bytes) {
  std::vector<PlannedParameter> parameters = of_sizes({3, 500, 2, 11, 70, 9000, 17});
  parameters[3] = {.elements = 11, .type = 1, .element_bytes = 2};
  for (const int shards : {2, 3, 7}) {
    for (const std::int64_t cap : {1, 129, 4000, 1'000'000}) {
      const GradientPlan plan =
          plan_gradients(parameters, {.bucket_bytes = cap, .marks_elements = 30, .shards = shards});
      EXPECT_EQ(plan.marks_flat, -1);
      std::int64_t covered = 0;
      for (const Bucket& bucket : plan.buckets) {
        const std::int64_t element_bytes =
            plan.flats[static_cast<std::size_t>(bucket.flat)].element_bytes;
        EXPECT_EQ(shard_of(bucket, 0, shards).begin, bucket.begin);
        EXPECT_EQ(shard_of(bucket, shards - 1, shards).end, bucket.end);
        for (int shard = 0; shard < shards; ++shard) {
          const Range part = shard_of(bucket, shard, shards);
          EXPECT_EQ(part.size() * element_bytes % 64, 0);
          EXPECT_EQ(part.size(), shard_of(bucket, 0, shards).size());
        }
        for (const int member : bucket.parameters) {
          const Place& place = plan.places[static_cast<std::size_t>(member)];
          EXPECT_GE(place.begin, bucket.begin);
          EXPECT_LE(place.begin + place.elements, bucket.end);
          covered += place.elements;
        }
      }
      EXPECT_EQ(covered, 3 + 500 + 2 + 11 + 70 + 9000 + 17);
    }
  }
}

TEST(GradientPlan, LaunchesFewReductionsUnderTheCap_PRF_02) {
  const std::vector<std::int64_t> small(32, 1'100'000 / 32 / 4);
  EXPECT_EQ(plan_gradients(of_sizes(small), {}).buckets.size(), 2U);
  for (const std::int64_t tensor_bytes : {1'000'000, 1'048'576}) {
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(100'000'000 / tensor_bytes),
                                          tensor_bytes / 4);
    const GradientPlan plan = plan_gradients(of_sizes(sizes), {});
    EXPECT_GE(plan.buckets.size(), 4U);
    EXPECT_LE(plan.buckets.size(), 5U);
    for (const Bucket& bucket : plan.buckets)
      EXPECT_LE(bytes_of(plan, bucket), kDefaultBucketBytes);
  }
  EXPECT_EQ(plan_gradients(of_sizes({4, 4}), {}).buckets.size(), 1U)
      << "tiny models pay one latency only";
}

TEST(GradientPlan, CutsASmallModelInTwoSoThatOneHalfIsHiddenWhateverTheSizes) {
  const std::vector<std::vector<std::int64_t>> models = {
      {24576, 9216, 96, 96, 27648, 288, 9216, 96, 96, 96, 36864, 384, 36864, 96, 24576, 96, 96},
      {100'000, 1, 1},
      {1, 1, 100'000},
      {7, 30'000, 30'000, 30'000}};
  for (const auto& sizes : models) {
    const GradientPlan plan = plan_gradients(of_sizes(sizes), {});
    ASSERT_EQ(plan.buckets.size(), 2U);
    std::size_t members = 0;
    for (const Bucket& bucket : plan.buckets) {
      EXPECT_FALSE(bucket.parameters.empty());
      members += bucket.parameters.size();
    }
    EXPECT_EQ(members, sizes.size());
  }
}

TEST(GradientPlan, KeepsMarksOutOfTypesThatCannotCount) {
  std::vector<PlannedParameter> parameters = of_sizes({5, 6});
  parameters[0] = {.elements = 5, .type = 1, .element_bytes = 2, .exact_counts = false};
  const GradientPlan plan = plan_gradients(parameters, {.marks_elements = 18});
  EXPECT_EQ(plan.marks_flat, -1);
  EXPECT_EQ(plan.places[0].begin, 0);
}

TEST(GradientPlan, HoldsNothingForNoParameters) {
  EXPECT_TRUE(plan_gradients({}, {}).buckets.empty());
}

std::vector<float> sum_of(const std::vector<LocalMarks>& ranks) {
  std::vector<float> sums = encode(ranks[0]);
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const std::vector<float> words = encode(ranks[rank]);
    for (std::size_t at = 0; at < sums.size(); ++at)
      sums[at] += words[at];
  }
  return sums;
}

TEST(Marks, SumOverRanksExactlyUpToTheLargestWorld) {
  for (const int ranks : {1, 2, 3, 7, kMostRanks}) {
    std::vector<LocalMarks> all;
    std::int64_t count = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::int64_t mine = 100'000'000'003LL + 977LL * rank;
      count += mine;
      all.push_back(
          {.parameters = {{true, true, true}, {rank == 0, false, true}, {false, rank == 2, false}},
           .active = rank % 2 == 0,
           .counted = true,
           .count = mine,
           .call_hash = 0xABCDEF});
    }
    const GlobalMarks marks = decode(sum_of(all), ranks);
    EXPECT_EQ(marks.count, count);
    EXPECT_EQ(marks.active, (ranks + 1) / 2);
    EXPECT_EQ(marks.counted, ranks);
    EXPECT_TRUE(marks.calls_agree);
    ASSERT_EQ(marks.parameters.size(), 3U);
    EXPECT_EQ(marks.parameters[0].used, ranks);
    EXPECT_EQ(marks.parameters[0].late, ranks);
    EXPECT_EQ(marks.parameters[1].used, 1);
    EXPECT_EQ(marks.parameters[1].trainable, ranks);
    EXPECT_EQ(marks.parameters[2].late, ranks > 2 ? 1 : 0);
  }
}

TEST(Marks, ShowThatOneRankMadeOtherCallsToAllAlike) {
  std::vector<LocalMarks> all(3);
  all[0].call_hash = 1;  // the mean is rank 1's own: only the variance tells
  all[1].call_hash = 2;
  all[2].call_hash = 3;
  EXPECT_FALSE(decode(sum_of(all), 3).calls_agree);
  all[0].call_hash = all[2].call_hash = 2;
  EXPECT_TRUE(decode(sum_of(all), 3).calls_agree);
}

TEST(UsageLog, TellsSinceWhichStepAParameterIsUnused_DDP_01) {
  UsageLog log(2);
  for (int step = 1; step <= 10; ++step)
    log.end_step(std::vector<int>{1, step < 5 || step == 7 ? 2 : 0});
  EXPECT_EQ(log.unused_since(0), 0);
  EXPECT_EQ(log.unused_since(1), 8);
}

TEST(Agreement, NamesTheEntryThatOneSideLacks_DDP_09) {
  const std::vector<std::string> texts = {
      to_text(std::vector<Entry>{{"a", "f32 [4]"}, {"b", "f32 [2]"}, {"c", "f32 [1]"}}),
      to_text(std::vector<Entry>{{"a", "f32 [4]"}, {"c", "f32 [1]"}})};
  const auto difference = first_difference(texts);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->name, "b");
  EXPECT_EQ(difference->rank, 1);
  EXPECT_EQ(difference->value, "absent");
  EXPECT_EQ(difference->count, 2U);
  EXPECT_EQ(difference->other_count, 3U);
}

TEST(Agreement, ComparesTextsThatAreNoLists) {
  const auto difference = first_difference(std::vector<std::string>{"17", "18"});
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->rank, 1);
}

TEST(Agreement, NamesTheRankThatDiffersFromTheMajority) {
  const std::string good = to_text(std::vector<Entry>{{"a", "1"}, {"b", "2"}});
  const std::string bad = to_text(std::vector<Entry>{{"a", "1"}, {"b", "3"}});
  EXPECT_FALSE(first_difference(std::vector<std::string>{good, good}));
  EXPECT_EQ(first_difference(std::vector<std::string>{bad, good, good})->rank, 0);
  EXPECT_EQ(first_difference(std::vector<std::string>{bad, good, good})->name, "b");
  EXPECT_EQ(first_difference(std::vector<std::string>{good, good, bad, good})->rank, 2);
  EXPECT_EQ(first_difference(std::vector<std::string>{good, bad})->rank, 1);
}

}  // namespace
}  // namespace lockstep::sharded
