// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/loader.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/pure/token_file.h"

#include "support/complaint.h"
#include "support/process.h"
#include "support/run_ranks.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<std::int64_t>;

// Inputs are the ids, targets ten times that.
Examples ids_as_rows(const Request& request) {
  at::Tensor ids = at::tensor(Ids(request.ids.begin(), request.ids.end()), at::kLong);
  return {ids, ids * 10};
}

Ids rest_of_ids(DataLoader& loader) {
  Ids ids;
  while (const auto batch = loader.next())
    ids.insert(ids.end(), batch->ids.begin(), batch->ids.end());
  return ids;
}

TEST(TokenDataset, TargetsAreInputsOneTokenLater) {
  const test::TemporaryFolder folder;
  std::vector<std::uint8_t> tokens(53);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::uint8_t>(i * i);
  TokenWriter writer(folder / "a", {.tokenizer = "byte"}, tokens.size());
  writer.append(std::as_bytes(std::span(tokens)));
  writer.commit();
  const std::vector<std::string> files = {(folder / "a").string()};
  const auto data = std::make_shared<const TokenSequences>(files, 7);
  DataLoader loader(
      token_dataset(data),
      DistributedSampler({.num_samples = data->size(), .num_epochs = 1}, {.micro = 3}));
  int batches = 0;
  while (const auto batch = loader.next()) {
    ++batches;
    ASSERT_EQ(batch->examples.inputs.sizes(), (at::IntArrayRef{3, 7}));
    ASSERT_EQ(batch->examples.inputs.scalar_type(), at::kLong);
    for (std::int64_t row = 0; row < 3; ++row) {
      for (std::int64_t t = 0; t < 7; ++t) {
        const auto at = static_cast<std::size_t>(batch->ids[static_cast<std::size_t>(row)] * 7 + t);
        EXPECT_EQ(batch->examples.inputs[row][t].item<std::int64_t>(), tokens[at]);
        EXPECT_EQ(batch->examples.targets[row][t].item<std::int64_t>(), tokens[at + 1]);
      }
    }
  }
  EXPECT_EQ(batches, 2);
}

TEST(Loader, GivesTheSamplersBatchesInOrderWithAnyNumberOfWorkers) {
  const SamplerOptions options{.num_samples = 47, .tail = Tail::Once, .seed = 8, .num_epochs = 3};
  const Dealing dealing{.rank = 1, .num_ranks = 3, .micro = 2, .accumulation = 2};
  for (const std::int64_t workers : {1, 2, 5}) {
    DistributedSampler sampler(options, dealing);
    std::atomic<int> calls = 0;
    const Dataset slow_by_turns = [&calls](const Request& request) {
      std::this_thread::sleep_for(std::chrono::microseconds(calls++ % 3 * 300));
      return ids_as_rows(request);
    };
    DataLoader loader(
        slow_by_turns, DistributedSampler(options, dealing), {.workers = workers, .prefetch = 3});
    while (const auto step = sampler.next()) {
      for (std::size_t k = 0; k < step->micro_batches.size(); ++k) {
        const auto batch = loader.next();
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->ids, step->micro_batches[k]);
        EXPECT_EQ(batch->epoch, step->epoch);
        EXPECT_EQ(batch->micro_batch, static_cast<std::int64_t>(k));
        EXPECT_EQ(batch->num_micro_batches, std::ssize(step->micro_batches));
        EXPECT_TRUE(at::equal(batch->examples.targets, batch->examples.inputs * 10));
        EXPECT_EQ(batch->examples.inputs.numel(), std::ssize(batch->ids));
      }
      EXPECT_EQ(loader.state(), step->after);
    }
    EXPECT_FALSE(loader.next());
    EXPECT_FALSE(loader.next());
  }
}

TEST(Loader, ResumesWhereTheHandedOutBatchesEndNotThePrefetched_SMP_08) {
  const SamplerOptions options{.num_samples = 12, .seed = 6, .num_epochs = 3};
  for (const std::int64_t rank : {0, 1}) {
    const Dealing dealing{.rank = rank, .num_ranks = 2, .micro = 2};
    DataLoader whole(
        ids_as_rows, DistributedSampler(options, dealing), {.workers = 2, .prefetch = 6});
    for (int i = 0; i < 4; ++i)
      whole.next();
    const SamplerState state = whole.state();
    EXPECT_EQ(state, (SamplerState{6, 1, 4}));
    EXPECT_EQ(whole.steps_left(), 5);
    DataLoader resumed(ids_as_rows, DistributedSampler(options, dealing));
    resumed.restore(state);
    EXPECT_EQ(resumed.steps_left(), 5);
    EXPECT_EQ(rest_of_ids(resumed), rest_of_ids(whole));
  }
}

TEST(Loader, AStepIsDoneOnlyWithItsLastMicroBatch) {
  DataLoader loader(ids_as_rows,
                    DistributedSampler({.num_samples = 12}, {.micro = 2, .accumulation = 3}));
  loader.next();
  loader.next();
  EXPECT_EQ(loader.state().consumed, 0);
  loader.next();
  EXPECT_EQ(loader.state().consumed, 6);
}

TEST(Loader, AnEpochThatIsSetReachesTheSamplerInUse_SMP_04) {
  std::set<Ids> orders;
  std::vector<std::unique_ptr<DataLoader>> loaders;
  for (const std::int64_t rank : {0, 1}) {
    loaders.push_back(std::make_unique<DataLoader>(
        ids_as_rows, DistributedSampler({.num_samples = 8, .seed = 3}, {rank, 2, 2, 1})));
  }
  for (const std::int64_t epoch : {0, 1, 2}) {
    Ids all;
    for (const auto& loader : loaders) {
      loader->set_epoch(epoch);
      for (int i = 0; i < 2; ++i) {
        const auto batch = loader->next();
        EXPECT_EQ(batch->epoch, epoch);
        all.insert(all.end(), batch->ids.begin(), batch->ids.end());
      }
    }
    orders.insert(all);
    std::sort(all.begin(), all.end());
    EXPECT_THAT(all, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  }
  EXPECT_EQ(orders.size(), 3U);
}

TEST(Loader, RanksWithSeedsOfTheirOwnAreStoppedAtTheStart_SMP_05) {
  test::run_ranks(2, [](World& world) {
    const std::int64_t rank = world.rank().value;
    const auto gather = [&world](std::string_view text) {
      return world.all().gather_text(text, "sampler");
    };
    const DistributedSampler agreed({.num_samples = 16, .seed = 100},
                                    {.rank = rank, .num_ranks = 2});
    EXPECT_NO_THROW(check_same_sampling(agreed, gather));
    const DistributedSampler own({.num_samples = 16, .seed = 100 + rank},
                                 {.rank = rank, .num_ranks = 2});
    const std::string text =
        test::complaint(Fault::Mismatch, [&] { check_same_sampling(own, gather); });
    EXPECT_THAT(text, HasSubstr("seed 100"));
    EXPECT_THAT(text, HasSubstr("seed 101"));
  });
}

TEST(Loader, ComparesTheSamplingOfRanksBeforeItsFirstBatch_SMP_05) {
  test::run_ranks(2, [](World& world) {
    const std::int64_t rank = world.rank().value;
    int compared = 0;
    const auto loader = [&](std::int64_t seed) {
      return DataLoader(
          ids_as_rows,
          DistributedSampler({.num_samples = 16, .seed = seed}, {.rank = rank, .num_ranks = 2}),
          {.gather = [&](std::string_view text) {
            ++compared;
            return world.all().gather_text(text, "sampling");
          }});
    };
    DataLoader own = loader(100 + rank);
    const std::string text = test::complaint(Fault::Mismatch, [&] { own.next(); });
    EXPECT_THAT(text, HasSubstr("seed 100"));
    EXPECT_THAT(text, HasSubstr("seed 101"));
    compared = 0;
    DataLoader agreed = loader(100);
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(agreed.next());
    EXPECT_EQ(compared, 1);
    agreed.set_epoch(3 + rank);
    EXPECT_THAT(test::complaint(Fault::Mismatch, [&] { agreed.next(); }),
                HasSubstr("from epoch 4"));
  });
}

TEST(Loader, WithoutAWorkerIsRefused) {
  EXPECT_THAT(test::complaint(Fault::Config,
                              [] {
                                DataLoader loader(ids_as_rows,
                                                  DistributedSampler({.num_samples = 4}, {}),
                                                  {.workers = 0});
                              }),
              HasSubstr("1 worker or more, found 0"));
  const StreamLoader::Open open = [](const StreamStart&) -> Stream {
    return [] { return std::optional<Examples>(); };
  };
  EXPECT_THAT(
      test::complaint(Fault::Config, [&] { StreamLoader loader(open, {}, {.workers = -1}); }),
      HasSubstr("found -1"));
  EXPECT_THAT(test::complaint(Fault::Config,
                              [&] { StreamLoader loader(open, {.rank = 2, .num_ranks = 2}); }),
              HasSubstr("rank 2 of 2"));
}

TEST(Loader, ASamplerAndShuffleTogetherAreRefused) {
  const std::string text = test::complaint(Fault::Config, [] {
    DataLoader loader(
        ids_as_rows, DistributedSampler({.num_samples = 4}, {}), {.shuffle = Order::Shuffled});
  });
  EXPECT_THAT(text, HasSubstr("a sampler and shuffle are both given"));
  DataLoader alone(ids_as_rows, 4, {.micro = 4}, {.shuffle = Order::Sequential});
  EXPECT_THAT(alone.next()->ids, ElementsAre(0, 1, 2, 3));
}

TEST(Loader, AnErrorOfTheDataSetComesInItsTurnAndStays) {
  const Dataset broken = [](const Request& request) -> Examples {
    if (request.ids[0] == 3)
      throw std::runtime_error("sample 3 is broken");
    return ids_as_rows(request);
  };
  DataLoader loader(broken, 8, {}, {.workers = 3});
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(loader.next()->ids[0], i);
  EXPECT_THROW(loader.next(), std::runtime_error);
  EXPECT_THROW(loader.next(), std::runtime_error);
}

TEST(Loader, ADataSetThatHangsIsNamedAfterTheTimeout) {
  const auto release = std::make_shared<std::atomic<bool>>(false);
  const Dataset hangs = [release](const Request& request) {
    while (!*release)
      std::this_thread::sleep_for(1ms);
    return ids_as_rows(request);
  };
  {
    DataLoader loader(hangs, 8, {}, {.workers = 2, .timeout = 50ms});
    EXPECT_THAT(test::complaint(Fault::Environment, [&] { loader.next(); }),
                HasSubstr("batch 0 was not ready within 50.0 ms"));
  }
  *release = true;  // the threads that were left to themselves end here
}

TEST(Loader, MeasuresTheWaitAndNeverHoldsMoreThanItsDepth) {
  std::atomic<int> made = 0;
  const Dataset slow = [&made](const Request& request) {
    std::this_thread::sleep_for(50ms);
    ++made;
    return ids_as_rows(request);
  };
  DataLoader loader(slow, 100, {}, {.workers = 1, .prefetch = 2});
  EXPECT_GE(loader.next()->waited, 10ms);
  for (int i = 0; i < 500 && made < 3; ++i)
    std::this_thread::sleep_for(2ms);
  std::this_thread::sleep_for(150ms);
  EXPECT_EQ(made, 3);  // one handed out, two ready
  const auto first = loader.next()->waited;
  EXPECT_LT(std::min(first, loader.next()->waited), 10ms);
}

TEST(Loader, RandomDataSetsDrawDifferentlyByRankWorkerEpochAndTheSameOnResume_SMP_06) {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> seeds;
  const Dataset record = [&](const Request& request) {
    const std::lock_guard lock(mutex);
    const std::string batch = cat(request.reader.rank, " ", request.epoch, " ", request.ids[0]);
    const auto [entry, fresh] = seeds.emplace(batch, request.seed);
    EXPECT_EQ(entry->second, request.seed) << "another draw for " << batch;
    return ids_as_rows(request);
  };
  const SamplerOptions options{.num_samples = 12, .seed = 1, .num_epochs = 2};
  for (const std::int64_t rank : {0, 1}) {
    const Dealing dealing{rank, 2, 2, 1};
    DataLoader whole(record, DistributedSampler(options, dealing), {.workers = 2});
    while (whole.next()) {
    }
    DataLoader resumed(record, DistributedSampler(options, dealing), {.workers = 2});
    resumed.restore({.seed = 1, .epoch = 1, .consumed = 4});
    while (resumed.next()) {
    }
  }
  std::set<std::uint64_t> distinct;
  for (const auto& [batch, seed] : seeds)
    distinct.insert(seed);
  EXPECT_EQ(seeds.size(), 12U);
  EXPECT_EQ(distinct.size(), 12U);
}

TEST(Loader, TheWorkerOfABatchEntersItsSeed_SMP_06) {
  struct Drawn {
    std::int64_t worker;
    std::uint64_t seed;
  };
  const auto drawn_with = [](std::int64_t workers) {
    std::mutex mutex;
    std::map<Ids, Drawn> drawn;
    DataLoader loader(
        [&](const Request& request) {
          const std::lock_guard lock(mutex);
          drawn[Ids(request.ids.begin(), request.ids.end())] = {request.reader.worker,
                                                                request.seed};
          return ids_as_rows(request);
        },
        DistributedSampler({.num_samples = 12, .seed = 1, .num_epochs = 1},
                           {.rank = 1, .num_ranks = 2, .micro = 1}),
        {.workers = workers});
    while (loader.next()) {
    }
    return drawn;
  };
  const auto one = drawn_with(1), two = drawn_with(2);
  ASSERT_EQ(one.size(), 6U);
  ASSERT_EQ(two.size(), 6U);
  int by_second = 0;
  for (const auto& [ids, drawn] : two) {
    EXPECT_EQ(one.at(ids).worker, 0);
    EXPECT_EQ(drawn.seed == one.at(ids).seed, drawn.worker == 0) << ids[0];
    by_second += drawn.worker == 1 ? 1 : 0;
  }
  EXPECT_EQ(by_second, 3);
}

TEST(StreamLoader, RanksAndWorkersReadEachItemOnce_SMP_07) {
  for (const auto& [ranks, workers, items] :
       std::vector<std::array<std::int64_t, 3>>{{2, 2, 12}, {3, 2, 7}, {1, 3, 2}}) {
    Ids seen;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const auto open = [count = items](const StreamStart&) -> Stream {
        return [i = std::int64_t{0}, count]() mutable -> std::optional<Examples> {
          if (i == count)
            return std::nullopt;
          return Examples{at::scalar_tensor(i++, at::kLong), {}};
        };
      };
      StreamLoader loader(open, {.rank = rank, .num_ranks = ranks}, {.workers = workers});
      while (const auto batch = loader.next()) {
        seen.push_back(batch->examples.inputs.item<std::int64_t>());
        EXPECT_EQ(batch->ids, Ids{seen.back()});
      }
    }
    std::sort(seen.begin(), seen.end());
    Ids expected(static_cast<std::size_t>(items));
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(seen, expected);
  }
}

TEST(StreamLoader, ReadersDrawDifferentlyAndOrderAlikeInEveryEpoch_SMP_06) {
  struct Opened {
    std::set<std::uint64_t> seeds;
    std::set<std::pair<std::int64_t, std::uint64_t>> orders;
    Ids items;
  };
  const auto read_all = [](std::int64_t base) {
    Opened opened;
    std::mutex mutex;
    // A user's stream that shuffles by itself: the last digit of order_seed turns it round.
    const StreamLoader::Open open = [&](const StreamStart& start) -> Stream {
      const std::lock_guard lock(mutex);
      opened.seeds.insert(start.seed);
      opened.orders.emplace(start.epoch, start.order_seed);
      const auto turn = static_cast<std::int64_t>(start.order_seed % 12);
      return [i = std::int64_t{0}, turn]() mutable -> std::optional<Examples> {
        if (i == 12)
          return std::nullopt;
        return Examples{at::scalar_tensor((turn + i++) % 12, at::kLong), {}};
      };
    };
    for (const std::int64_t rank : {0, 1}) {
      StreamLoader loader(open, {.rank = rank, .num_ranks = 2, .seed = base}, {.workers = 2});
      for (const std::int64_t epoch : {0, 1, 2}) {
        if (epoch > 0)
          loader.set_epoch(epoch);
        while (const auto batch = loader.next()) {
          EXPECT_EQ(batch->epoch, epoch);
          opened.items.push_back(batch->examples.inputs.item<std::int64_t>());
        }
      }
    }
    return opened;
  };
  const Opened first = read_all(5), again = read_all(5), other = read_all(6);
  EXPECT_EQ(first.seeds.size(), 12U) << "2 ranks, 2 workers, 3 epochs";
  EXPECT_EQ(first.orders.size(), 3U) << "one order an epoch";
  EXPECT_EQ(first.seeds, again.seeds);
  EXPECT_EQ(first.orders, again.orders);
  EXPECT_NE(first.seeds, other.seeds);
  EXPECT_NE(first.orders, other.orders);
  for (std::int64_t item = 0; item < 12; ++item)
    EXPECT_EQ(std::count(first.items.begin(), first.items.end(), item), 3) << item;
}

TEST(Predictions, ComeBackAsManyAndInTheOrderOfTheData_SMP_11) {
  struct Case {
    std::int64_t samples, ranks, micro;
  };
  for (const Case& c : {Case{12, 2, 3},
                        Case{13, 2, 3},
                        Case{512, 2, 16},
                        Case{10, 4, 1},
                        Case{3, 8, 2},
                        Case{31, 3, 4}}) {
    for (const Order order : {Order::Sequential, Order::Shuffled}) {
      const SamplerOptions options{
          .num_samples = c.samples, .order = order, .tail = Tail::Once, .num_epochs = 1};
      const std::int64_t most =
          most_rows_of_a_rank(options, {.num_ranks = c.ranks, .micro = c.micro});
      at::Tensor gathered = at::full({c.ranks, most, 2}, -1, at::kLong);
      for (std::int64_t rank = 0; rank < c.ranks; ++rank) {
        DataLoader loader(ids_as_rows, DistributedSampler(options, {rank, c.ranks, c.micro, 1}));
        std::int64_t row = 0;
        while (const auto batch = loader.next()) {
          const std::int64_t count = batch->examples.inputs.numel();
          const at::Tensor rows = at::stack({batch->examples.inputs, batch->examples.targets}, 1);
          if (count > 0)
            gathered[rank].narrow(0, row, count).copy_(rows);
          row += count;
        }
      }
      const at::Tensor rows =
          rows_in_data_order(gathered, options, {.num_ranks = c.ranks, .micro = c.micro});
      const at::Tensor ids = at::arange(c.samples, at::kLong);
      EXPECT_TRUE(at::equal(rows, at::stack({ids, ids * 10}, 1))) << c.samples << " samples";
    }
  }
  EXPECT_THAT(test::complaint(Fault::Usage,
                              [] {
                                rows_in_data_order(at::zeros({2, 5, 1}),
                                                   {.num_samples = 12, .tail = Tail::Once},
                                                   {.num_ranks = 2, .micro = 3});
                              }),
              HasSubstr("expected [2, 6 or more, ...], found [2, 5, 1]"));
}

}  // namespace
}  // namespace lockstep
