// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <numeric>
#include <optional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/passing.h"

#include "comm/shm/thread_ranks.h"
#include "support/process.h"

namespace lockstep::test {
namespace {

using namespace comm::shm;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(Compare, FindsTheRankWhoseCallDiffersBeforeDataMoves_HNG_02) {
  run({.size = 3}, [](ThreadRank& self) {
    for (std::uint64_t sequence = 1; sequence <= 4; ++sequence)
      EXPECT_FALSE(self.member.compare({.sequence = sequence, .text = "barrier", .source = {}}));
    const std::string mine =
        self.rank == 2 ? "all_reduce sum f32 [200, 4]" : "all_reduce sum f32 [100, 4]";
    const auto found = self.member.compare({.sequence = 5, .text = mine, .source = {}});
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->rank_a, 0);
    EXPECT_EQ(found->rank_b, 2);
    EXPECT_EQ(found->a, "all_reduce sum f32 [100, 4]");
    EXPECT_EQ(found->b, "all_reduce sum f32 [200, 4]");
  });
}

TEST(Compare, SeesADifferenceBeyondTheLettersItKeepsAndInTheNumber) {
  run({.size = 2}, [](ThreadRank& self) {
    const std::string longest = std::string(2000, 'x') + (self.rank == 0 ? "a" : "b");
    EXPECT_TRUE(self.member.compare({.sequence = 1, .text = longest, .source = {}}).has_value());
  });
  run({.size = 2}, [](ThreadRank& self) {
    const auto found = self.member.compare(
        {.sequence = self.rank == 0 ? 7U : 8U, .text = "barrier", .source = {}});
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->b, "barrier as call #8");
  });
}

TEST(Wait, EndsAtItsDeadlineAndNamesWhoIsMissing) {
  run({.size = 3, .patience = {.timeout = milliseconds(300), .stop = nullptr}},
      [](ThreadRank& self) {
        if (self.rank == 1)
          return;
        const auto start = Clock::now();
        EXPECT_THAT(
            error_of([&] { self.member.compare({.sequence = 1, .text = "x", .source = {}}); }),
            HasSubstr("group rank 1 did not come within 300"));
        EXPECT_LT(Clock::now() - start, seconds(2));
      });
}

TEST(Wait, EndsWhenItIsToldTo) {
  std::atomic<bool> stop = false;
  run({.size = 2, .patience = {.timeout = seconds(600), .stop = [&] { return stop.load(); }}},
      [&](ThreadRank& self) {
        const Buffer<float> buffer(nullptr, 1'000'000);
        self.member.compare({.sequence = 1, .text = "x", .source = {}});
        if (self.rank == 1) {  // leaves in the middle
          std::this_thread::sleep_for(milliseconds(100));
          stop = true;
          return;
        }
        const auto start = Clock::now();
        EXPECT_THROW(self.member.all_reduce(buffer.bytes(), Element::F32, Reduction::Sum), Stopped);
        EXPECT_LT(Clock::now() - start, seconds(2));
      });
}

TEST(Transfers, DoNotWaitForEachOtherAcrossReceivers) {
  // Rank 1 takes rank 2's letter before rank 0's, rank 2 waits for rank 0's: with one queue all would hang.
  run({.size = 3}, [](ThreadRank& self) {
    const std::size_t count = 3'000'001;
    const Buffer<std::uint8_t> out(nullptr, count);
    const Buffer<std::uint8_t> in(nullptr, count);
    std::iota(out.values().begin(), out.values().end(), static_cast<std::uint8_t>(self.rank));
    std::vector<std::future<std::optional<Difference>>> sent;
    const auto send = [&](int to) {
      sent.push_back(self.post.send(to, {.bytes = out.bytes(), .text = "x", .keep = nullptr}));
    };
    const auto receive = [&](int from) {
      EXPECT_FALSE(self.post.receive(from, in.bytes(), "x").has_value());
      EXPECT_EQ(in.values()[count - 1],
                static_cast<std::uint8_t>(count - 1 + static_cast<std::size_t>(from)));
    };
    if (self.rank == 0) {
      send(1);
      send(2);
    } else if (self.rank == 1) {
      receive(2);
      receive(0);
    } else {
      receive(0);
      send(1);
    }
    for (auto& letter : sent)
      EXPECT_FALSE(letter.get().has_value());
  });
}

TEST(Transfers, AreRefusedOnBothSidesWhenTheyDiffer) {
  run({.size = 2}, [](ThreadRank& self) {
    const Buffer<std::uint8_t> bytes(nullptr, 4'000'000);
    std::optional<Difference> found;
    if (self.rank == 0) {
      found = self.post.send(1, {.bytes = bytes.bytes(), .text = "f32 [1000000]", .keep = nullptr})
                  .get();
    } else {
      found = self.post.receive(0, bytes.bytes(), "f64 [500000]");
    }
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->a, "f32 [1000000]");
    EXPECT_EQ(found->b, "f64 [500000]");
  });
}

// The job's table, for one group.
class Table {
 public:
  void publish(std::string_view name) {
    const std::lock_guard lock(mutex_);
    name_ = name;
  }
  std::optional<std::string> look_up() {
    const std::lock_guard lock(mutex_);
    return name_;
  }

 private:
  std::mutex mutex_;
  std::optional<std::string> name_;
};

TEST(Passing, GivesAllRanksTheSameMemory) {
  static constexpr int kSize = 4;
  Table table;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kSize; ++rank) {
    threads.emplace_back([&, rank] {
      Heap heap;
      const Buffer<std::int64_t> buffer(&heap, 5);
      const Shared shared = pass_descriptors(
          {.rank = rank,
           .ranks = kSize,
           .heap = heap.fd(),
           .make_block = [] { return Block::make(kSize, "x", available_memory()); },
           .publish = [&](std::string_view name) { table.publish(name); },
           .look_up = [&] { return table.look_up(); },
           .patience = {.timeout = seconds(20), .stop = nullptr}});
      std::vector<std::unique_ptr<PeerHeap>> peers;
      for (const Descriptor& fd : shared.heaps)
        peers.push_back(std::make_unique<PeerHeap>(Descriptor(::dup(fd.get()))));
      Member member(std::make_shared<Block>(shared.block.get(), kSize),
                    rank,
                    std::move(peers),
                    &heap,
                    {.timeout = seconds(20), .stop = nullptr});
      for (std::int64_t& value : buffer.values())
        value = rank + 1;
      member.compare({.sequence = 1, .text = "x", .source = buffer.bytes()});
      EXPECT_TRUE(member.in_place());
      member.all_reduce(buffer.bytes(), Element::I64, Reduction::Sum);
      for (const std::int64_t value : buffer.values())
        EXPECT_EQ(value, 1 + 2 + 3 + 4);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
}

TEST(Passing, EndsWhenARankDoesNotCome) {
  Heap heap;
  Table table;
  Passing passing{.rank = 0,
                  .ranks = 2,
                  .heap = heap.fd(),
                  .make_block = [] { return Block::make(2, "x", available_memory()); },
                  .publish = [&](std::string_view name) { table.publish(name); },
                  .look_up = [&] { return table.look_up(); },
                  .patience = {.timeout = milliseconds(200), .stop = nullptr}};
  EXPECT_THAT(error_of([&] { pass_descriptors(passing); }), HasSubstr("only 1 of 2 ranks came"));
  passing.rank = 1;
  passing.look_up = [] { return std::nullopt; };
  EXPECT_THAT(error_of([&] { pass_descriptors(passing); }), HasSubstr("group rank 0 did not come"));
}

TEST(Memory, TooLittleIsToldWithNeededAndFoundBytesBeforeItIsUsed) {
  const std::string text = error_of(
      [] { Block::make(4, "dp", {.bytes = 1'000'000, .limit = "memory.max of its cgroup"}); });
  EXPECT_THAT(text, HasSubstr(cat(Block::bytes_for(4), " bytes")));
  EXPECT_THAT(text, HasSubstr("1000000 bytes"));
  EXPECT_THAT(text, HasSubstr("memory.max of its cgroup"));
  EXPECT_THAT(text, HasSubstr("group dp"));
}

TEST(Memory, HoldsTheFileSizeLimitWithoutASignal) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Heap heap;
    const std::string text = error_of([&] { heap.allocate(std::size_t{8} << 20U); });
    const bool told = contains(text, "8388608 bytes") && contains(text, "1048576 bytes");
    ::_exit(told ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Memory, IsLimitedByTheLeastOfMachineAndControlGroups) {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& path, const std::string& content) {
    const std::filesystem::path file = folder.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  };
  write("proc/meminfo", "MemTotal:  2048 kB\nMemAvailable:    1000 kB\n");
  EXPECT_EQ(available_memory(folder.path()).bytes, 1'024'000U);
  write("proc/self/cgroup", "0::/job/rank\n");
  write("sys/fs/cgroup/job/rank/memory.max", "max\n");
  write("sys/fs/cgroup/job/memory.max", "900000\n");
  write("sys/fs/cgroup/job/memory.current", "250000\n");
  EXPECT_EQ(available_memory(folder.path()).bytes, 650'000U);
  EXPECT_EQ(available_memory(folder.path()).limit, "memory.max of its cgroup");
  write("proc/self/cgroup", "4:memory:/old\n");
  write("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "500\n");
  write("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "600\n");
  EXPECT_EQ(available_memory(folder.path()).bytes, 0U);
}

TEST(Heap, GivesFreedPlacesAgainAndCountsWhatItHolds) {
  const std::int64_t before = memory_report().total.current_bytes;
  Heap heap;
  std::byte* first = heap.allocate(100'000);
  first[0] = std::byte{7};
  const auto place = heap.find(first + 500, 10);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->offset, 500U);
  EXPECT_FALSE(heap.find(first + 99'000, 10'000'000).has_value());
  EXPECT_GE(memory_report().total.current_bytes - before, 100'000);
  heap.free(first);
  EXPECT_EQ(memory_report().total.current_bytes, before);
  EXPECT_FALSE(heap.find(first, 1).has_value());
  std::byte* second = heap.allocate(100'000);
  EXPECT_EQ(heap.find(second, 1)->block, place->block);
  EXPECT_EQ(second[0], std::byte{0});
  heap.free(second);
}

}  // namespace
}  // namespace lockstep::test
