// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/group.h"

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "lockstep/base/text.h"

#include "support/run_ranks.h"

namespace lockstep::test {
namespace {

const std::vector<int> kSizes = {1, 2, 3, 5};

// Depends on rank, element and step, and is exact in every type that the tests use.
at::Tensor input(int rank, std::int64_t count, at::ScalarType type = at::kFloat, int step = 0) {
  return (at::arange(count, at::kLong) % 7 + 3 * rank + step).to(type);
}

at::Tensor sum_of_inputs(int size, std::int64_t count, at::ScalarType type, int step = 0) {
  at::Tensor total = at::zeros({count}, at::kLong);
  for (int rank = 0; rank < size; ++rank)
    total += input(rank, count, at::kLong, step);
  return total.to(type);
}

TEST(AllReduce, AddsOverRanksInEveryTypeAndCount) {
  for (const int size : kSizes) {
    run_ranks(size, [](World& world) {
      for (const at::ScalarType type : {at::kFloat,
                                        at::kDouble,
                                        at::kBFloat16,
                                        at::kHalf,
                                        at::kLong,
                                        at::kInt,
                                        at::kShort,
                                        at::kChar,
                                        at::kByte}) {
        for (const std::int64_t count : {0, 1, 3, 1001}) {
          const at::Tensor tensor = input(world.rank().value, count, type);
          world.all().all_reduce(tensor, ReduceOp::Sum, "x").wait();
          EXPECT_TRUE(at::equal(tensor, sum_of_inputs(world.size(), count, type)))
              << c10::toString(type) << " " << count << " at " << world.size();
        }
      }
    });
  }
}

TEST(AllReduce, TakesTheLargestAndTheSmallest) {
  run_ranks(3, [](World& world) {
    const at::Tensor largest = input(world.rank().value, 10);
    const at::Tensor smallest = input(world.rank().value, 10);
    world.all().all_reduce(largest, ReduceOp::Max, "max").wait();
    world.all().all_reduce(smallest, ReduceOp::Min, "min").wait();
    EXPECT_TRUE(at::equal(largest, input(2, 10)));
    EXPECT_TRUE(at::equal(smallest, input(0, 10)));
    const at::Tensor flag = at::full({1}, world.rank().value == 1, at::kBool);
    world.all().all_reduce(flag, ReduceOp::Max, "any").wait();
    EXPECT_TRUE(flag.item<bool>());
    const at::Tensor every = at::full({1}, world.rank().value == 1, at::kBool);
    world.all().all_reduce(every, ReduceOp::Min, "every").wait();
    EXPECT_FALSE(every.item<bool>());
  });
}

TEST(AllReduce, LeavesTheSameBitsOnAllRanks) {
  for (const int size : {2, 3, 5}) {
    run_ranks(size, [](World& world) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const at::Tensor tensor =
            (at::arange(4099, at::kFloat) * 0.1 + world.rank().value * 1.7).sin().to(type);
        world.all().all_reduce(tensor, ReduceOp::Sum, "noise").wait();
        const at::Tensor all = at::empty({world.size() * tensor.numel()}, tensor.options());
        world.all().all_gather(all, tensor, "copies").wait();
        for (const at::Tensor& copy : all.chunk(world.size()))
          EXPECT_TRUE(at::equal(copy, tensor));
      }
    });
  }
}

TEST(ReduceScatter, LeavesEachRankTheSumOfItsSlice) {
  for (const int size : kSizes) {
    run_ranks(size, [](World& world) {
      for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16, at::kLong}) {
        const std::int64_t slice = 37;
        const at::Tensor full = input(world.rank().value, slice * world.size(), type);
        const at::Tensor before = full.clone();
        const at::Tensor shard = at::full({slice}, -1, full.options());
        world.all().reduce_scatter(shard, full, ReduceOp::Sum, "x").wait();
        EXPECT_TRUE(
            at::equal(shard,
                      sum_of_inputs(world.size(), full.numel(), type)
                          .slice(0, world.rank().value * slice, (world.rank().value + 1) * slice)));
        EXPECT_TRUE(at::equal(full, before));
      }
    });
  }
}

TEST(ReduceScatter, AddsHalfTypesInFp32) {
  run_ranks(3, [](World& world) {
    // 256 + 1 + 1 is 258 in fp32 and bf16; added in bf16 step by step it stays 256.
    const at::Tensor full = at::full({3}, world.rank().value == 0 ? 256.0 : 1.0, at::kBFloat16);
    const at::Tensor shard = at::zeros({1}, at::kBFloat16);
    world.all().reduce_scatter(shard, full, ReduceOp::Sum, "x").wait();
    EXPECT_EQ(shard.item<float>(), 258.0F);
  });
}

TEST(AllGather, GivesEveryRankAllSlicesInRankOrder) {
  for (const int size : kSizes) {
    run_ranks(size, [](World& world) {
      std::vector<at::Tensor> expected;
      for (int rank = 0; rank < world.size(); ++rank)
        expected.push_back(input(rank, 11, at::kHalf));
      const at::Tensor full = at::zeros({11 * world.size()}, at::kHalf);
      world.all().all_gather(full, input(world.rank().value, 11, at::kHalf), "x").wait();
      EXPECT_TRUE(at::equal(full, at::cat(expected)));
    });
  }
}

TEST(AllGather, TakesTheOwnSliceInPlace) {
  run_ranks(3, [](World& world) {
    const at::Tensor full = at::zeros({9});
    const at::Tensor mine = full.slice(0, world.rank().value * 3, world.rank().value * 3 + 3);
    mine.copy_(input(world.rank().value, 3));
    world.all().all_gather(full, mine, "x").wait();
    EXPECT_TRUE(at::equal(full, at::cat({input(0, 3), input(1, 3), input(2, 3)})));
  });
}

TEST(Broadcast, CopiesTheRootsTensorFromEveryRoot) {
  for (const int size : kSizes) {
    run_ranks(size, [](World& world) {
      for (int root = 0; root < world.size(); ++root) {
        for (const at::ScalarType type : {at::kFloat, at::kBool, at::kLong}) {
          const at::Tensor tensor = input(world.rank().value, 13, type);
          world.all().broadcast(tensor, {root}, "x").wait();
          EXPECT_TRUE(at::equal(tensor, input(root, 13, type)));
        }
      }
    });
  }
}

TEST(AllToAll, SendsSliceJToRankJ) {
  for (const int size : kSizes) {
    run_ranks(size, [](World& world) {
      const at::Tensor in = input(world.rank().value, 5 * world.size(), at::kLong);
      const at::Tensor out = at::zeros_like(in);
      world.all().all_to_all(out, in, "x").wait();
      for (int from = 0; from < world.size(); ++from) {
        const at::Tensor expected =
            input(from, 5 * world.size(), at::kLong)
                .slice(0, 5 * world.rank().value, 5 * world.rank().value + 5);
        EXPECT_TRUE(at::equal(out.slice(0, 5 * from, 5 * from + 5), expected));
      }
    });
  }
}

TEST(Transfers, MeetWhenBothSidesSendFirst) {
  run_ranks(3, [](World& world) {
    const Group all = world.all();
    const GroupRank next{(world.rank().value + 1) % 3};
    const GroupRank previous{(world.rank().value + 2) % 3};
    // Large enough not to fit into the sockets' buffers.
    const at::Tensor mine = input(world.rank().value, 1'500'001);
    const at::Tensor theirs = at::zeros_like(mine);
    for (int step = 0; step < 3; ++step) {
      Pending sent = all.send(mine, next, "activation");
      Pending received = all.recv(theirs, previous, "activation");
      sent.wait();
      received.wait();
      EXPECT_TRUE(at::equal(theirs, input(previous.value, mine.numel())));
    }
    all.barrier("end").wait();
  });
}

TEST(Transfers, HaveTheirTimeFromWhenTheyAreNext) {
  run_ranks(2, WorldOptions{.timeout = std::chrono::milliseconds(1500)}, [](World& world) {
    const Group all = world.all();
    const at::Tensor first = at::zeros({7});
    const at::Tensor second = at::zeros({5});
    if (world.rank().value == 0) {
      for (const at::Tensor& tensor : {first, second}) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1000));
        all.send(tensor.add(3), {1}, "x").wait();
      }
    } else {
      Pending one = all.recv(first, {0}, "x");
      Pending two = all.recv(second, {0}, "x");
      one.wait();
      two.wait();
      EXPECT_EQ(second[4].item<float>(), 3);
    }
  });
}

TEST(Pending, ManyAtOnceEndInTheOrderOfTheCalls) {
  run_ranks(3, [](World& world) {
    std::vector<at::Tensor> tensors;
    std::vector<Pending> pending;
    for (int i = 0; i < 20; ++i) {
      tensors.push_back(input(world.rank().value, 500 + i, at::kFloat, i));
      pending.push_back(world.all().all_reduce(tensors.back(), ReduceOp::Sum, cat("bucket ", i)));
    }
    pending.back().wait();
    for (int i = 0; i < 20; ++i) {
      EXPECT_TRUE(pending[static_cast<std::size_t>(i)].done());
      EXPECT_TRUE(at::equal(tensors[static_cast<std::size_t>(i)],
                            sum_of_inputs(3, 500 + i, at::kFloat, i)));
    }
    const std::vector<CallRecord> records = world.recorder().records();
    ASSERT_EQ(records.size(), 20U);
    for (std::size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].sequence, i + 1);
      EXPECT_EQ(records[i].call.subject, cat("bucket ", i));
      EXPECT_GE(records[i].started, i > 0 ? records[i - 1].ended : records[i].enqueued);
    }
  });
}

TEST(Pending, DroppedHandlesAreCarriedOut) {
  run_ranks(2, [](World& world) {
    const at::Tensor tensor = input(world.rank().value, 100);
    static_cast<void>(world.all().all_reduce(tensor, ReduceOp::Sum, "x"));
    world.all().barrier("after").wait();
    EXPECT_TRUE(at::equal(tensor, sum_of_inputs(2, 100, at::kFloat)));
  });
}

TEST(Group, OfOneNeverCommunicates) {
  run_ranks(3, [](World& world) {
    const Group alone = world.group("tp", {{{0}}, {{1}}, {{2}}});
    ASSERT_EQ(alone.size(), 1);
    const at::Tensor tensor = input(world.rank().value, 10);
    alone.all_reduce(tensor, ReduceOp::Sum, "x").wait();
    EXPECT_TRUE(at::equal(tensor, input(world.rank().value, 10)));
    EXPECT_EQ(world.recorder().totals().calls, 0);
  });
}

TEST(Group, PartsOfAPartitionWorkSideBySide_HNG_08) {
  run_ranks(4, [](World& world) {
    const Group outer = world.group("outer", {{{0}, {3}}, {{1}, {2}}});
    const bool edge = world.rank().value == 0 || world.rank().value == 3;
    EXPECT_EQ(outer.label(), edge ? "outer (ranks 0 3)" : "outer (ranks 1 2)");
    for (int step = 0; step < 20; ++step) {
      outer.barrier("b").wait();
      const at::Tensor tensor = input(world.rank().value, 5, at::kFloat, step);
      outer.all_reduce(tensor, ReduceOp::Sum, "x").wait();
      const at::Tensor expected =
          edge ? input(0, 5, at::kFloat, step) + input(3, 5, at::kFloat, step)
               : input(1, 5, at::kFloat, step) + input(2, 5, at::kFloat, step);
      EXPECT_TRUE(at::equal(tensor, expected));
    }
  });
}

TEST(Group, GathersTextsInRankOrder) {
  run_ranks(3, [](World& world) {
    for (int i = 0; i < 3; ++i) {
      const std::vector<std::string> texts =
          world.all().gather_text(cat("from ", world.rank().value, " at ", i), "hello");
      EXPECT_EQ(texts,
                (std::vector<std::string>{
                    cat("from 0 at ", i), cat("from 1 at ", i), cat("from 2 at ", i)}));
    }
  });
}

TEST(Group, RefusesWhatCannotBeSent) {
  run_ranks(2, [](World& world) {
    const Group all = world.all();
    EXPECT_THROW((void)all.all_reduce(at::zeros({4, 4}).t(), ReduceOp::Sum, "x"), Error);
    EXPECT_THROW((void)all.all_reduce(at::zeros({4}, at::kComplexFloat), ReduceOp::Sum, "x"),
                 Error);
    EXPECT_THROW((void)all.reduce_scatter(at::zeros({2}), at::zeros({5}), ReduceOp::Sum, "x"),
                 Error);
    EXPECT_THROW((void)all.all_gather(at::zeros({4}, at::kDouble), at::zeros({2}), "x"), Error);
    EXPECT_THROW((void)all.broadcast(at::zeros({4}), {2}, "x"), Error);
    EXPECT_THROW((void)all.send(at::zeros({4}), all.rank(), "x"), Error);
    EXPECT_THROW((void)all.broadcast(at::zeros({4}, at::kMeta), {0}, "x"), Error);
  });
}

}  // namespace
}  // namespace lockstep::test
