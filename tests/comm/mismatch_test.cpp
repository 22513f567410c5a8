// SPDX-License-Identifier: Apache-2.0
// Ranks that disagree: found before data moves, or before the step ends, and told on every rank.
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "support/run_ranks.h"

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

void expect_error(Fault fault,
                  const std::function<void()>& body,
                  const testing::Matcher<std::string>& text) {
  try {
    body();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault) << error.what();
    EXPECT_THAT(std::string(error.what()), text);
  }
}

TEST(Mismatch, LeavesTheTensorsAsTheyWere_HNG_02) {
  run_failing_ranks(3, [](World& world) {
    const std::int64_t rows = world.rank().value == 1 ? 200 : 100;
    const at::Tensor tensor = at::full({rows, 4}, 1.0 + world.rank().value);
    expect_error(
        Fault::Mismatch,
        [&] { world.all().all_reduce(tensor, ReduceOp::Sum, "w").wait(); },
        AllOf(HasSubstr("f32 [100, 4]"),
              HasSubstr("f32 [200, 4]"),
              HasSubstr("(rank 1)"),
              HasSubstr("'w'")));
    EXPECT_TRUE(at::equal(tensor, at::full({rows, 4}, 1.0 + world.rank().value)));
    expect_error(
        Fault::Mismatch, [&] { world.all().barrier("after").wait(); }, HasSubstr("(rank 1)"));
  });
}

TEST(Mismatch, OfTypesAndSubjectsIsFound) {
  run_failing_ranks(2, [](World& world) {
    const at::Tensor tensor = at::ones({8}, world.rank().value == 0 ? at::kFloat : at::kDouble);
    expect_error(
        Fault::Mismatch,
        [&] { world.all().broadcast(tensor, {0}, "w").wait(); },
        AllOf(HasSubstr("f32"), HasSubstr("f64")));
  });
  run_failing_ranks(2, [](World& world) {
    const std::string subject = world.rank().value == 0 ? "layers.0.weight" : "layers.1.weight";
    expect_error(
        Fault::Mismatch,
        [&] { world.all().all_reduce(at::ones({8}), ReduceOp::Sum, subject).wait(); },
        AllOf(HasSubstr("layers.0.weight"), HasSubstr("layers.1.weight")));
  });
}

TEST(Mismatch, OfATransferIsFoundByTheReceiver) {
  run_failing_ranks(2, [](World& world) {
    if (world.rank().value == 0) {
      EXPECT_THROW(world.all().send(at::ones({8}), {1}, "x").wait(), Error);
    } else {
      expect_error(
          Fault::Mismatch,
          [&] { world.all().recv(at::ones({9}), {0}, "x").wait(); },
          AllOf(HasSubstr("[8]"), HasSubstr("[9]")));
    }
  });
}

TEST(Mismatch, OfPartitionsShowsBothLists_HNG_08) {
  run_ranks(4, [](World& world) {
    const bool edge = world.rank().value == 0 || world.rank().value == 3;
    const std::vector<std::vector<GlobalRank>> own =
        edge ? std::vector<std::vector<GlobalRank>>{{{0}, {3}}}
             : std::vector<std::vector<GlobalRank>>{{{1}, {2}}};
    expect_error(
        Fault::Mismatch,
        [&] { (void)world.group("g", own); },
        AllOf(HasSubstr("{0 3}"), HasSubstr("{1 2}")));
  });
}

TEST(Mismatch, OfAnExchangeOfTextsOnOneRankIsToldOnBoth_HNG_06) {
  for (const bool known : {false, true}) {
    const auto start = std::chrono::steady_clock::now();
    run_failing_ranks(2, [&](World& world) {
      const Group all = world.all();
      const at::Tensor sum = at::ones({3});
      if (known)
        all.all_reduce(sum, ReduceOp::Sum, "gradient").wait();
      const bool first = world.rank().value == 0;
      expect_error(
          Fault::Mismatch,
          [&] {
            if (first)
              (void)all.gather_text("mine", "report");
            else
              all.all_reduce(sum, ReduceOp::Sum, "gradient").wait();
          },
          AllOf(HasSubstr("gather_text 'report' (rank 0)"), HasSubstr("'gradient' (rank 1)")));
    });
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
  }
}

TEST(Mismatch, OfACallThatEndedInBuffersOnOneRankIsToldOnBoth_HNG_06) {
  const auto start = std::chrono::steady_clock::now();
  run_failing_ranks(2, [](World& world) {
    const Group all = world.all();
    const at::Tensor small = at::ones({3});
    all.broadcast(small, {1}, "small").wait();
    all.barrier("end").wait();
    expect_error(
        Fault::Mismatch,
        [&] {
          if (world.rank().value == 0) {
            all.all_reduce(at::ones({11}), ReduceOp::Sum, "new").wait();
          } else {
            all.broadcast(small, {1}, "small").wait();
            all.barrier("end").wait();
          }
        },
        AllOf(HasSubstr("all_reduce sum f32 [11] 'new' (rank 0)"),
              HasSubstr("'small' (rank 1)"),
              HasSubstr("#3")));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(6));
}

TEST(Left, RankIsNamedByAnExchangeOfTexts) {
  run_ranks(3, [](World& world) {
    if (world.rank().value == 1)
      return;
    expect_error(
        Fault::Peer,
        [&] { (void)world.all().gather_text("mine", "report"); },
        AllOf(HasSubstr("rank 1 missing at gather_text #1"), HasSubstr("it has finished")));
    EXPECT_THROW(world.finish(), Error);
  });
}

TEST(Digest, FindsKnownCallsThatWereSwapped) {
  run_ranks(3, [](World& world) {
    const Group all = world.all();
    const at::Tensor a = at::ones({16});
    const at::Tensor b = at::ones({16});
    const auto step = [&](bool swapped) {
      all.all_reduce(a, ReduceOp::Sum, swapped ? "b" : "a").wait();
      all.all_reduce(b, ReduceOp::Sum, swapped ? "a" : "b").wait();
      const CallDigest digest = all.take_digest();
      const at::Tensor sums = at::tensor({digest.value, digest.square}, at::kLong);
      all.all_reduce(sums, ReduceOp::Sum, "count").wait();
      return CallDigest::all_equal(
          sums[0].item<std::int64_t>(), sums[1].item<std::int64_t>(), all.size());
    };
    EXPECT_TRUE(step(false));
    EXPECT_TRUE(step(false));
    EXPECT_FALSE(step(world.rank().value == 1));
    expect_error(
        Fault::Mismatch,
        [&] { all.throw_first_difference(); },
        AllOf(
            HasSubstr("'a' (rank 0)"), HasSubstr("'b' (rank 1)"), HasSubstr("call 2 of the step")));
  });
}

TEST(Deadline, HoldsForTheVeryFirstCall_HNG_05) {
  run_failing_ranks(2, WorldOptions{.timeout = std::chrono::milliseconds(600)}, [](World& world) {
    if (world.rank().value == 1)
      std::this_thread::sleep_for(std::chrono::seconds(2));
    const auto start = std::chrono::steady_clock::now();
    expect_error(
        Fault::Peer,
        [&] { world.all().barrier("first").wait(); },
        HasSubstr("rank 1 missing at barrier #1"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500));
  });
}

TEST(Deadline, HoldsForAnExchangeOfTextsToo_HNG_05) {
  run_failing_ranks(2, WorldOptions{.timeout = std::chrono::milliseconds(600)}, [](World& world) {
    if (world.rank().value == 1)
      std::this_thread::sleep_for(std::chrono::seconds(2));
    expect_error(
        Fault::Peer,
        [&] { (void)world.all().gather_text("mine", "report"); },
        HasSubstr("rank 1 missing at gather_text #1"));
  });
}

TEST(Failure, OfOneRankReachesCallsThatOthersWaitIn_HNG_03) {
  run_ranks(3, [](World& world) {
    if (world.rank().value == 2) {
      world.fail(std::runtime_error("no memory for this"));
      return;
    }
    expect_error(
        Fault::Peer,
        [&] { world.all().barrier("end").wait(); },
        AllOf(HasSubstr("rank 2 failed"), HasSubstr("no memory for this")));
    EXPECT_THROW(world.finish(), Error);
  });
}

TEST(Failure, OfACallThatNobodyWaitedForEndsTheRank) {
  for (const bool dropped : {true, false}) {
    run_ranks(2, [&](World& world) {
      const std::int64_t elements = 5 + 2 * world.rank().value;
      Pending last = world.all().all_reduce(at::ones({elements}), ReduceOp::Sum, "last");
      if (dropped)
        last = Pending();
      expect_error(
          Fault::Mismatch, [&] { world.finish(); }, AllOf(HasSubstr("[5]"), HasSubstr("[7]")));
    });
  }
}

}  // namespace
}  // namespace lockstep::test
