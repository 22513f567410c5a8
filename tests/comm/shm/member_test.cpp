// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/shm/member.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm/shm/half.h"

#include "comm/shm/thread_ranks.h"

namespace lockstep::test {
namespace {

using namespace comm::shm;

const std::vector<int> kSizes = {1, 2, 3, 4, 8};
// One element, none a multiple of the ranks; and several chunks of a window and a rest, for one type.
const std::vector<std::size_t> kCounts = {1, 1001};
const std::vector<std::size_t> kCountsOfOneType = {1, 7, 1001, 150'001};

// The values of a type as numbers.
template <typename T>
struct Number {
  static T stored(double value) { return static_cast<T>(value); }
  static double read(T value) { return static_cast<double>(value); }
};
struct Bf16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};
struct Flag {
  std::uint8_t value;
};
template <>
struct Number<Bf16> {
  static Bf16 stored(double value) { return {to_bf16(static_cast<float>(value))}; }
  static double read(Bf16 value) { return from_bf16(value.bits); }
};
template <>
struct Number<F16> {
  static F16 stored(double value) { return {to_f16(static_cast<float>(value))}; }
  static double read(F16 value) { return from_f16(value.bits); }
};
template <>
struct Number<Flag> {
  static Flag stored(double value) { return {value != 0 ? std::uint8_t{1} : std::uint8_t{0}}; }
  static double read(Flag value) { return value.value; }
};

// Depends on rank, element and step, and stays exact in every type as a sum over 8 ranks.
double input(int rank, std::size_t element, int step) {
  return static_cast<double>(
      (element * 3 + static_cast<std::size_t>(rank) * 5 + static_cast<std::size_t>(step)) % 7);
}

double expected(Reduction reduction, int size, std::size_t element, int step) {
  double result = input(0, element, step);
  for (int rank = 1; rank < size; ++rank) {
    const double next = input(rank, element, step);
    result = reduction == Reduction::Sum   ? result + next
             : reduction == Reduction::Max ? std::max(result, next)
                                           : std::min(result, next);
  }
  return result;
}

template <typename T>
void fill(const Buffer<T>& buffer, int rank, int step, std::size_t from = 0) {
  for (std::size_t i = 0; i < buffer.values().size(); ++i)
    buffer.values()[i] = Number<T>::stored(input(rank, from + i, step));
}

// How many of `values` are not what `wanted(element)` says.
template <typename T, typename Wanted>
std::size_t wrong(std::span<const T> values, const Wanted& wanted) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    count += Number<T>::read(values[i]) == Number<T>::read(Number<T>::stored(wanted(i))) ? 0U : 1U;
  return count;
}

struct Case {
  ThreadRank& self;
  Heap* heap;  // none: buffers pass through windows
  int size;
  std::size_t count;
  int step;
};

void agree(const Case& c, std::span<const std::byte> source) {
  const auto found = c.self.member.compare(
      {.sequence = static_cast<std::uint64_t>(c.step), .text = "the same", .source = source});
  EXPECT_FALSE(found.has_value());
  EXPECT_EQ(c.self.member.in_place(), c.heap != nullptr);
}

template <typename T>
void check_reductions(const Case& c, Element element) {
  for (const Reduction reduction : {Reduction::Sum, Reduction::Max, Reduction::Min}) {
    if (c.count > 10'000 && reduction != Reduction::Sum)
      continue;
    const Buffer<T> all(c.heap, c.count);
    fill(all, c.self.rank, c.step);
    agree(c, all.bytes());
    c.self.member.all_reduce(all.bytes(), element, reduction);
    EXPECT_EQ(wrong<T>(all.values(),
                       [&](std::size_t i) { return expected(reduction, c.size, i, c.step); }),
              0U)
        << "all_reduce of " << c.count << " over " << c.size;

    const auto ranks = static_cast<std::size_t>(c.size);
    const Buffer<T> full(c.heap, c.count * ranks);
    fill(full, c.self.rank, c.step);
    const Buffer<T> shard(nullptr, c.count);
    agree(c, full.bytes());
    c.self.member.reduce_scatter(shard.bytes(), full.bytes(), element, reduction);
    const std::size_t begin = static_cast<std::size_t>(c.self.rank) * c.count;
    EXPECT_EQ(
        wrong<T>(shard.values(),
                 [&](std::size_t i) { return expected(reduction, c.size, begin + i, c.step); }),
        0U)
        << "reduce_scatter of " << c.count << " over " << c.size;
    EXPECT_EQ(wrong<T>(full.values(), [&](std::size_t i) { return input(c.self.rank, i, c.step); }),
              0U);
  }
}

template <typename T>
void check_moves(const Case& c) {
  const auto ranks = static_cast<std::size_t>(c.size);
  const Buffer<T> shard(c.heap, c.count);
  const Buffer<T> full(nullptr, c.count * ranks);
  fill(shard, c.self.rank, c.step);
  agree(c, shard.bytes());
  c.self.member.all_gather(full.bytes(), shard.bytes());
  EXPECT_EQ(wrong<T>(full.values(),
                     [&](std::size_t i) {
                       return input(static_cast<int>(i / c.count), i % c.count, c.step);
                     }),
            0U)
      << "all_gather of " << c.count << " over " << c.size;

  for (const int root : {0, c.size - 1}) {
    fill(shard, c.self.rank, c.step);
    agree(c, shard.bytes());
    c.self.member.broadcast(shard.bytes(), root);
    EXPECT_EQ(wrong<T>(shard.values(), [&](std::size_t i) { return input(root, i, c.step); }), 0U)
        << "broadcast of " << c.count << " over " << c.size;
  }

  const Buffer<T> in(c.heap, c.count * ranks);
  fill(in, c.self.rank, c.step);
  agree(c, in.bytes());
  c.self.member.all_to_all(full.bytes(), in.bytes());
  const std::size_t begin = static_cast<std::size_t>(c.self.rank) * c.count;
  EXPECT_EQ(wrong<T>(full.values(),
                     [&](std::size_t i) {
                       return input(static_cast<int>(i / c.count), begin + i % c.count, c.step);
                     }),
            0U)
      << "all_to_all of " << c.count << " over " << c.size;
}

template <typename T>
void check_transfers(const Case& c) {
  if (c.size == 1)
    return;
  const int next = (c.self.rank + 1) % c.size;
  const int previous = (c.self.rank + c.size - 1) % c.size;
  const Buffer<T> mine(nullptr, c.count);
  const Buffer<T> theirs(nullptr, c.count);
  fill(mine, c.self.rank, c.step);
  auto sent = c.self.post.send(next, {.bytes = mine.bytes(), .text = "x", .keep = nullptr});
  EXPECT_FALSE(c.self.post.receive(previous, theirs.bytes(), "x").has_value());
  EXPECT_FALSE(sent.get().has_value());
  EXPECT_EQ(wrong<T>(theirs.values(), [&](std::size_t i) { return input(previous, i, c.step); }),
            0U)
      << "transfer of " << c.count << " over " << c.size;
}

template <typename T>
void check_everything(Element element, int size, bool in_place) {
  run({.size = size, .reach_heaps = in_place}, [&](ThreadRank& self) {
    int step = 0;
    for (const std::size_t count : element == Element::BF16 ? kCountsOfOneType : kCounts) {
      const Case c{.self = self,
                   .heap = in_place ? &self.heap : nullptr,
                   .size = size,
                   .count = size > 3 ? std::min<std::size_t>(count, 40'011) : count,
                   .step = ++step};
      if (size > 1)
        check_reductions<T>(c, element);
      check_moves<T>(c);
      check_transfers<T>(c);
    }
  });
}

class Operations : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ThroughWindowsAndInPlace, Operations, testing::Bool());

TEST_P(Operations, GiveEveryRankTheResultInEveryTypeAndCount) {
  for (const int size : kSizes) {
    check_everything<float>(Element::F32, size, GetParam());
    check_everything<double>(Element::F64, size, GetParam());
    check_everything<Bf16>(Element::BF16, size, GetParam());
    check_everything<F16>(Element::F16, size, GetParam());
    check_everything<std::int64_t>(Element::I64, size, GetParam());
    check_everything<std::int32_t>(Element::I32, size, GetParam());
    check_everything<std::int16_t>(Element::I16, size, GetParam());
    check_everything<std::int8_t>(Element::I8, size, GetParam());
    check_everything<std::uint8_t>(Element::U8, size, GetParam());
  }
}

TEST_P(Operations, TakeTheSumOfFlagsAsAny) {
  for (const int size : {2, 5}) {
    run({.size = size, .reach_heaps = GetParam()}, [&](ThreadRank& self) {
      const Buffer<Flag> flags(GetParam() ? &self.heap : nullptr, 5);
      for (std::size_t i = 0; i < 5; ++i)
        flags.values()[i].value = static_cast<int>(i) == self.rank ? 1 : 0;
      self.member.compare({.sequence = 1, .text = "x", .source = flags.bytes()});
      self.member.all_reduce(flags.bytes(), Element::Bool, Reduction::Sum);
      for (std::size_t i = 0; i < 5; ++i)
        EXPECT_EQ(flags.values()[i].value, static_cast<int>(i) < size ? 1 : 0);
    });
  }
}

TEST_P(Operations, AddHalfTypesInFp32InTheOrderOfTheRanks) {
  run({.size = 3, .reach_heaps = GetParam()}, [&](ThreadRank& self) {
    // 256 + 1 + 1 is 258 in fp32 and bf16; added in bf16 step by step it stays 256.
    const Buffer<Bf16> values(GetParam() ? &self.heap : nullptr, 3);
    for (Bf16& value : values.values())
      value = Number<Bf16>::stored(self.rank == 0 ? 256 : 1);
    self.member.compare({.sequence = 1, .text = "x", .source = values.bytes()});
    self.member.all_reduce(values.bytes(), Element::BF16, Reduction::Sum);
    for (const Bf16 value : values.values())
      EXPECT_EQ(Number<Bf16>::read(value), 258);
    // (1e8 - 1e8) + 1 is 1; in another order 1 is lost.
    const Buffer<float> order(GetParam() ? &self.heap : nullptr, 4);
    for (float& value : order.values())
      value = self.rank == 0 ? 1e8F : self.rank == 1 ? -1e8F : 1.0F;
    self.member.compare({.sequence = 2, .text = "x", .source = order.bytes()});
    self.member.all_reduce(order.bytes(), Element::F32, Reduction::Sum);
    for (const float value : order.values())
      EXPECT_EQ(value, 1.0F);
  });
}

TEST_P(Operations, LetNotANumberWin) {
  run({.size = 3, .reach_heaps = GetParam()}, [&](ThreadRank& self) {
    for (const Reduction reduction : {Reduction::Sum, Reduction::Max, Reduction::Min}) {
      const Buffer<float> values(GetParam() ? &self.heap : nullptr, 3);
      for (std::size_t i = 0; i < 3; ++i) {
        values.values()[i] =
            static_cast<int>(i) == self.rank ? std::numeric_limits<float>::quiet_NaN() : 1.0F;
      }
      self.member.compare({.sequence = 1, .text = "x", .source = values.bytes()});
      self.member.all_reduce(values.bytes(), Element::F32, reduction);
      for (const float value : values.values())
        EXPECT_TRUE(std::isnan(value));
    }
  });
}

TEST_P(Operations, CountWhatTheyHandToPeers) {
  for (const int size : {2, 3, 4, 8}) {
    std::atomic<std::int64_t> all_reduce = 0;
    std::atomic<std::int64_t> reduce_scatter = 0;
    std::atomic<std::int64_t> all_gather = 0;
    std::atomic<std::int64_t> broadcast = 0;
    const std::size_t slice = 120'003;
    run({.size = size, .reach_heaps = GetParam()}, [&](ThreadRank& self) {
      Heap* heap = GetParam() ? &self.heap : nullptr;
      const Buffer<float> full(heap, slice * static_cast<std::size_t>(size));
      const Buffer<float> shard(heap, slice);
      self.member.compare({.sequence = 1, .text = "x", .source = full.bytes()});
      self.member.all_reduce(full.bytes(), Element::F32, Reduction::Sum);
      all_reduce += self.member.sent_bytes();
      self.member.compare({.sequence = 2, .text = "x", .source = full.bytes()});
      self.member.reduce_scatter(shard.bytes(), full.bytes(), Element::F32, Reduction::Sum);
      reduce_scatter += self.member.sent_bytes();
      self.member.compare({.sequence = 3, .text = "x", .source = shard.bytes()});
      self.member.all_gather(full.bytes(), shard.bytes());
      all_gather += self.member.sent_bytes();
      self.member.compare({.sequence = 4, .text = "x", .source = full.bytes()});
      self.member.broadcast(full.bytes(), 1);
      broadcast += self.member.sent_bytes();
    });
    // Each rank (n-1)/n of the whole; twice that for an all_reduce.
    const std::int64_t whole = static_cast<std::int64_t>(slice * 4) * size;
    EXPECT_EQ(all_reduce, 2 * whole * (size - 1));
    EXPECT_EQ(reduce_scatter, whole * (size - 1));
    EXPECT_EQ(all_gather, whole * (size - 1));
    EXPECT_EQ(broadcast, whole * (size - 1));
  }
}

TEST(Half, ReadsAndWritesEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float as_bf16 = from_bf16(half);
    const float as_f16 = from_f16(half);
    if (!std::isnan(as_bf16)) {
      EXPECT_EQ(to_bf16(as_bf16), half);
    }
    if (std::isnan(as_f16)) {
      EXPECT_TRUE(std::isnan(from_f16(to_f16(as_f16))));
      continue;
    }
    EXPECT_EQ(to_f16(as_f16), half);
    const int exponent = (half >> 10U) & 31U;
    const double fraction = half & 1023U;
    const double size = exponent == 31  ? std::numeric_limits<double>::infinity()
                        : exponent == 0 ? std::ldexp(fraction, -24)
                                        : std::ldexp(1024 + fraction, exponent - 25);
    EXPECT_EQ(std::abs(as_f16), size);
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  // Between two neighbours: below the middle, the middle, above it.
  for (std::uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = from_f16(half);
    const float high = from_f16(static_cast<std::uint16_t>(half + 1));
    const float middle = (low + high) / 2;
    const auto even = static_cast<std::uint16_t>(half + (half & 1U));
    EXPECT_EQ(to_f16(middle), even) << half;
    EXPECT_EQ(to_f16(std::nextafter(middle, low)), half);
    EXPECT_EQ(to_f16(std::nextafter(middle, high)), half + 1);
    EXPECT_EQ(to_f16(-middle), even | 0x8000U);
  }
  EXPECT_EQ(to_f16(65519.99F), 0x7bffU);
  EXPECT_EQ(to_f16(65520.0F), 0x7c00U);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7f80U);
  EXPECT_EQ(to_bf16(1.00390625F), to_bf16(1.0F));
}

}  // namespace
}  // namespace lockstep::test
