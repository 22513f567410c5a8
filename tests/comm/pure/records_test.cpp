// SPDX-License-Identifier: Apache-2.0
// The values that ranks record and publish about their calls.
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm/pure/call_history.h"
#include "lockstep/comm/pure/failure.h"
#include "lockstep/comm/pure/gloo_traffic.h"
#include "lockstep/comm/pure/rank_state.h"
#include "lockstep/comm/pure/recorder.h"
#include "lockstep/comm/pure/ring_traffic.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

CallDescription call(Operation operation,
                     std::vector<std::int64_t> shape,
                     std::string subject,
                     int root = -1) {
  return {.operation = operation,
          .reduce = "",
          .type = "f32",
          .shape = std::move(shape),
          .root = root,
          .subject = std::move(subject),
          .element_bytes = 4};
}

TEST(CallDescription, ShowsOperationTypeShapeAndSubject) {
  CallDescription reduce = call(Operation::AllReduce, {100, 4}, "w");
  reduce.reduce = "sum";
  EXPECT_EQ(text_of(reduce), "all_reduce sum f32 [100, 4] 'w'");
  EXPECT_EQ(text_of(call(Operation::Broadcast, {3}, "w", 2)),
            "broadcast f32 [3] from group rank 2 'w'");
  EXPECT_EQ(text_of({.operation = Operation::Barrier, .subject = "end"}), "barrier 'end'");
  EXPECT_EQ(reduce.bytes(), 1600);
  reduce.device = "cuda";
  EXPECT_EQ(text_of(reduce), "all_reduce sum f32 [100, 4] on cuda 'w'");
}

TEST(Recorder, KeepsTheLastCallsAndAllTotals) {
  Recorder recorder(3);
  const auto start = CallRecord::Clock::now();
  for (int i = 1; i <= 5; ++i) {
    recorder.add({.group = "all",
                  .sequence = static_cast<std::uint64_t>(i),
                  .call = call(Operation::AllReduce, {i}, "x"),
                  .enqueued = start + i * 1s,
                  .started = start + i * 1s,
                  .ended = start + i * 1s + 10ms,
                  .sent_bytes = i});
  }
  recorder.add_exposed(7ms);
  const std::vector<CallRecord> records = recorder.records();
  ASSERT_EQ(records.size(), 3U);
  EXPECT_EQ(records.front().sequence, 3U);
  EXPECT_EQ(records.back().sequence, 5U);
  EXPECT_EQ(recorder.records_since(start + 4s).size(), 2U);
  EXPECT_EQ(recorder.totals().calls, 5);
  EXPECT_EQ(recorder.totals().sent_bytes, 15);
  EXPECT_NEAR(recorder.totals().busy_ms, 50, 1e-6);
  EXPECT_NEAR(recorder.totals().exposed_ms, 7, 1e-6);
}

CallDigest digest_of(const std::vector<CallDescription>& calls) {
  CallHistory history;
  for (const CallDescription& one : calls)
    history.add(one);
  return history.take();
}

TEST(CallDigest, TellsFromSumsWhetherAllRanksMadeTheSameCalls) {
  const CallDescription a = call(Operation::AllReduce, {5}, "a");
  const CallDescription b = call(Operation::AllReduce, {5}, "b");
  const CallDigest same = digest_of({a, b});
  const CallDigest swapped = digest_of({b, a});
  const CallDigest fewer = digest_of({a});
  EXPECT_NE(same.value, swapped.value);
  EXPECT_NE(same.value, fewer.value);
  for (const int ranks : {1, 2, 7, 4096}) {
    EXPECT_TRUE(CallDigest::all_equal(ranks * same.value, ranks * same.square, ranks));
    if (ranks == 1)
      continue;
    EXPECT_FALSE(CallDigest::all_equal((ranks - 1) * same.value + swapped.value,
                                       (ranks - 1) * same.square + swapped.square,
                                       ranks));
  }
  // Values around their mean would fool a comparison of the sum alone.
  EXPECT_FALSE(CallDigest::all_equal(10 + 20 + 30, 100 + 400 + 900, 3));
}

TEST(CallHistory, StartsAnewAtEachTakeAndKeepsTheTextsTaken) {
  CallHistory history;
  history.add(call(Operation::AllReduce, {5}, "a"));
  const CallDigest first = history.take();
  history.add(call(Operation::AllReduce, {5}, "a"));
  EXPECT_EQ(history.take().value, first.value);
  EXPECT_THAT(history.taken(), testing::ElementsAre("all_reduce f32 [5] 'a'"));
  EXPECT_EQ(history.take().value, CallHistory().take().value);
}

TEST(FirstDifference, NamesTheFirstCallThatDiffersAndTwoRanks) {
  const FirstDifference found =
      first_difference({{"a", "b", "c"}, {"a", "b", "c"}, {"a", "x", "c"}});
  EXPECT_TRUE(found.found);
  EXPECT_EQ(found.index, 1U);
  EXPECT_EQ(found.rank_b, 2);
  EXPECT_EQ(found.b, "x");
  EXPECT_EQ(first_difference({{"a"}, {"a", "b"}}).a, "no call");
  EXPECT_FALSE(first_difference({{"a"}, {"a"}}).found);
}

RankState state(int rank,
                std::uint64_t finished,
                std::uint64_t current,
                const std::string& text,
                std::vector<EnteredCall> before = {}) {
  if (current > 0)
    before.push_back({.sequence = current, .text = text});
  return {
      .rank = rank,
      .beat = 1,
      .phase = "forward",
      .groups = {{.group = "all",
                  .finished = finished,
                  .finished_name = finished == 0 ? "" : call_name(Operation::AllReduce, finished),
                  .current = current,
                  .current_name = current == 0 ? "" : call_name(Operation::AllReduce, current),
                  .entered = std::move(before)}}};
}

TEST(RankState, ReadsBackFromItsText) {
  const RankState read =
      rank_state_from_json(to_json(state(2, 16, 17, "all_reduce", {{16, "barrier"}})));
  EXPECT_EQ(read.rank, 2);
  EXPECT_EQ(read.phase, "forward");
  ASSERT_NE(read.in("all"), nullptr);
  EXPECT_EQ(read.in("all")->current, 17U);
  ASSERT_EQ(read.in("all")->entered.size(), 2U);
  EXPECT_EQ(read.in("all")->entered[0].sequence, 16U);
  EXPECT_EQ(read.in("all")->entered[1].text, "all_reduce");
  EXPECT_EQ(read.in("other"), nullptr);
}

TEST(RankState, TellsWhoIsMissingAndWhereItIs_HNG_01) {
  const std::vector<RankState> states = {
      state(0, 16, 17, "x"), state(1, 16, 17, "x"), state(2, 16, 0, ""), {.rank = 3}};
  EXPECT_THAT(missing_from(states, "all", 17), testing::ElementsAre(2, 3));
  EXPECT_EQ(missing_text(states[2], "all", "all_reduce #17"),
            "rank 2 missing at all_reduce #17; its last was all_reduce #16, phase forward");
  EXPECT_EQ(missing_text(states[3], "all", "all_reduce #17"),
            "rank 3 missing at all_reduce #17; it made no call yet");
}

TEST(RankState, TellsWhoIsInTheSameCallWithAnotherOne_HNG_06) {
  const auto found = find_disagreement({state(0, 16, 17, "all_reduce 'metric'"),
                                        state(1, 17, 18, "barrier"),
                                        state(2, 16, 17, "barrier")},
                                       "all");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank_a, 0);
  EXPECT_EQ(found->rank_b, 2);
  EXPECT_FALSE(find_disagreement(
                   {state(0, 16, 17, "x"), state(1, 17, 18, "barrier"), state(2, 17, 0, "")}, "all")
                   .has_value());
}

TEST(RankState, TellsWhoLeftACallBehindThatOthersNeverMade_HNG_06) {
  const auto found = find_disagreement(
      {state(0, 16, 17, "gather_text 'x'", {{16, "all_reduce 'w'"}}),
       state(1,
             18,
             19,
             "barrier",
             {{16, "all_reduce 'w'"}, {17, "broadcast 'w'"}, {18, "broadcast 'v'"}}),
       state(2, 18, 0, "", {{18, "other"}})},
      "all");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->sequence, 17U);
  EXPECT_EQ(found->rank_a, 0);
  EXPECT_EQ(found->a, "gather_text 'x'");
  EXPECT_EQ(found->rank_b, 1);
  EXPECT_EQ(found->b, "broadcast 'w'");
}

TEST(Failure, TravelsAsTextAndBecomesTheErrorOfAnotherRank_HNG_03) {
  Failure failure = failure_of(1, std::runtime_error("out of memory\nmore"));
  failure.phase = "forward";
  const Failure read = failure_from_json(to_json(failure));
  const Error error(
      consequence_of(read, {.rank = 0, .group = "all", .operation = "all_reduce #3"}));
  EXPECT_EQ(error.fault(), Fault::Peer);
  EXPECT_THAT(error.what(),
              testing::AllOf(testing::HasSubstr("[rank 0] all_reduce #3"),
                             testing::HasSubstr("rank 1 failed in phase forward"),
                             testing::HasSubstr("out of memory")));
}

TEST(Failure, OfAGroupStaysAMismatchInThatGroupOnly) {
  const Error mismatch({.fault = Fault::Mismatch,
                        .where = {.rank = 1, .group = "dp"},
                        .problem = "ranks disagree",
                        .expected = "a",
                        .found = "b"});
  const Failure read = failure_from_json(to_json(failure_of(1, mismatch)));
  EXPECT_EQ(consequence_of(read, {.rank = 0, .group = "dp"}).fault, Fault::Mismatch);
  EXPECT_EQ(consequence_of(read, {.rank = 0, .group = "dp"}).expected, "a");
  EXPECT_EQ(consequence_of(read, {.rank = 0, .group = "tp"}).fault, Fault::Peer);
}

class Traffic : public testing::TestWithParam<decltype(&gloo_sent_bytes)> {
 protected:
  static std::int64_t sent_by_all(const CallDescription& what, int size) {
    std::int64_t sum = 0;
    for (int rank = 0; rank < size; ++rank)
      sum += GetParam()(what, rank, size);
    return sum;
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, Traffic, testing::Values(&gloo_sent_bytes, &ring_sent_bytes));

TEST_P(Traffic, AddsUpToTheFormulaOfEachOperation) {
  for (const int size : {2, 3, 5, 8}) {
    for (const std::int64_t count :
         {std::int64_t{size}, std::int64_t{size} * 1001, std::int64_t{size} * 700'001}) {
      const std::int64_t bytes = count * 4;
      EXPECT_EQ(sent_by_all(call(Operation::AllReduce, {count}, "x"), size),
                2 * (size - 1) * bytes);
      EXPECT_EQ(sent_by_all(call(Operation::ReduceScatter, {count}, "x"), size),
                (size - 1) * bytes);
      EXPECT_EQ(sent_by_all(call(Operation::AllGather, {count}, "x"), size), (size - 1) * bytes);
      for (int root = 0; root < size; ++root)
        EXPECT_EQ(sent_by_all(call(Operation::Broadcast, {count}, "x", root), size),
                  (size - 1) * bytes);
    }
  }
  EXPECT_EQ(sent_by_all(call(Operation::AllReduce, {7}, "x"), 1), 0);
}

}  // namespace
}  // namespace lockstep
