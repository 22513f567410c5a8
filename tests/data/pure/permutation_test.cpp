// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/pure/permutation.h"

#include <map>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::vector<std::uint64_t> order_of(const Permutation& permutation) {
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 0; i < permutation.size(); ++i)
    order.push_back(permutation(i));
  return order;
}

TEST(Permutation, HasEverySampleOnceForAnySize) {
  for (std::uint64_t size = 1; size <= 300; ++size) {
    std::vector<int> times(size, 0);
    for (const std::uint64_t sample : order_of(Permutation(size, size * 7, size)))
      ++times.at(sample);
    EXPECT_EQ(times, std::vector<int>(size, 1)) << size;
  }
}

// Every order of four samples comes about equally often: chi-square with 23 degrees of freedom, 0.1
// % quantile 49.7.
TEST(Permutation, AllOrdersOfASmallSetAreEquallyLikely) {
  std::map<std::vector<std::uint64_t>, int> times;
  constexpr int kDraws = 24'000;
  for (int seed = 0; seed < kDraws / 2; ++seed) {
    for (const std::uint64_t epoch : {0U, 1U})
      ++times[order_of(Permutation(4, static_cast<std::uint64_t>(seed), epoch))];
  }
  EXPECT_EQ(times.size(), 24U);
  double chi_square = 0;
  for (const auto& [order, count] : times)
    chi_square += (count - kDraws / 24.0) * (count - kDraws / 24.0) / (kDraws / 24.0);
  EXPECT_LT(chi_square, 49.7);
}

// Where the first sample of 1000 lands is uniform too: 10 bins, 9 degrees of freedom, 0.1 %
// quantile 27.9.
TEST(Permutation, PositionsOfALargeSetAreUniform) {
  std::vector<int> bins(10, 0);
  for (std::uint64_t seed = 0; seed < 5000; ++seed)
    ++bins[Permutation(1000, seed, 3)(0) / 100];
  double chi_square = 0;
  for (const int count : bins)
    chi_square += (count - 500.0) * (count - 500.0) / 500.0;
  EXPECT_LT(chi_square, 27.9);
}

TEST(Permutation, DependsOnSeedAndEpoch) {
  const auto order = order_of(Permutation(20, 1, 1));
  EXPECT_EQ(order_of(Permutation(20, 1, 1)), order);
  EXPECT_NE(order_of(Permutation(20, 2, 1)), order);
  EXPECT_NE(order_of(Permutation(20, 1, 2)), order);
}

// Checkpoints of today must find the same order in any later version and on any machine. The values
// come from a second implementation, in Python.
TEST(Permutation, IsTheSameForEver) {
  EXPECT_THAT(order_of(Permutation(12, 42, 0)),
              testing::ElementsAre(2, 11, 5, 6, 0, 3, 9, 8, 1, 4, 7, 10));
  EXPECT_EQ(Permutation(1'000'000'007, 42, 3)(123'456'789), 122'515'893U);
}

}  // namespace
}  // namespace lockstep
