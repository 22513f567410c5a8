// SPDX-License-Identifier: Apache-2.0
// What a world over shared memory promises beyond what every backend does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/base/text.h"

#include "support/run_ranks.h"

namespace lockstep::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const WorldOptions kShm{.timeout = std::chrono::seconds(60), .backend = "shm"};

TEST(Shm, ComparesEveryCallNotOnlyNewOnes_HNG_02) {
  const auto start = std::chrono::steady_clock::now();
  run_failing_ranks(3, kShm, [](World& world) {
    const at::Tensor x = at::ones({16});
    for (const char* subject : {"a", "b"})
      world.all().all_reduce(x, ReduceOp::Sum, subject).wait();
    const at::Tensor before = x.clone();
    try {
      world.all().all_reduce(x, ReduceOp::Sum, world.rank().value == 2 ? "b" : "a").wait();
      FAIL() << "swapped calls passed";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Mismatch);
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("'a' (rank 0)"), HasSubstr("'b' (rank 2)"), HasSubstr("#3")));
    }
    EXPECT_TRUE(at::equal(x, before));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Shm, ReducesTensorsThatPeersReachInPlace) {
  run_ranks(3, kShm, [](World& world) {
    const Group all = world.all();
    const std::int64_t before = memory_report().total.current_bytes;
    {
      const at::Tensor whole = all.allocate(30'001, at::kBFloat16);
      EXPECT_EQ(whole.abs().sum().item<float>(), 0.0F);
      whole.fill_(world.rank().value + 1);
      const at::Tensor part = whole.slice(0, 64, 20'000);  // a bucket of a flat buffer
      all.all_reduce(part, ReduceOp::Sum, "bucket").wait();
      EXPECT_TRUE((part == 6).all().item<bool>());
      EXPECT_TRUE((whole.slice(0, 20'000) == world.rank().value + 1).all().item<bool>());
      const at::Tensor shard = at::empty({10'000}, at::kBFloat16);
      all.reduce_scatter(shard, whole.slice(0, 0, 30'000), ReduceOp::Max, "slices").wait();
      EXPECT_TRUE(
          (shard.slice(0, 64, 6'000) == (world.rank().value == 2 ? 3 : 6)).any().item<bool>());
      // (n-1)/n of the whole twice, and once.
      EXPECT_NEAR(static_cast<double>(world.recorder().totals().sent_bytes),
                  2.0 * 2 / 3 * 2 * 19'936 + 2.0 / 3 * 2 * 30'000,
                  400);
      all.barrier("end").wait();
    }
    EXPECT_LE(memory_report().total.current_bytes, before + 3 * 70'000);
  });
}

TEST(Backend, OfAnUnknownNameIsRefused) {
  WorldOptions wrong = kShm;
  wrong.backend = "smh";
  EXPECT_THROW(World::of_threads(2, wrong), Error);
}

TEST(Gloo, AllocatesOrdinaryMemory) {
  run_ranks(2, {.timeout = std::chrono::seconds(60), .backend = "gloo"}, [](World& world) {
    const at::Tensor tensor = world.all().allocate(7, at::kLong);
    EXPECT_EQ(tensor.numel(), 7);
    EXPECT_EQ(tensor.sum().item<std::int64_t>(), 0);
    world.all().all_reduce(tensor.add_(1), ReduceOp::Sum, "x").wait();
    EXPECT_EQ(tensor[6].item<std::int64_t>(), 2);
  });
}

}  // namespace
}  // namespace lockstep::test
