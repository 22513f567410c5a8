// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/pure/init_values.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::nn {
namespace {

std::vector<double> values(std::size_t count,
                           const Init& init,
                           std::uint64_t begin = 0,
                           std::uint64_t seed = 1,
                           std::string_view name = "layers.0.weight") {
  std::vector<double> out(count);
  fill_initial(out, begin, init, seed, name);
  return out;
}

double mean(const std::vector<double>& all) {
  double sum = 0.0;
  for (const double each : all) {
    sum += each;
  }
  return sum / static_cast<double>(all.size());
}

double deviation(const std::vector<double>& all) {
  double sum = 0.0;
  for (const double each : all) {
    sum += each * each;
  }
  return std::sqrt(sum / static_cast<double>(all.size()) - mean(all) * mean(all));
}

TEST(NormalQuantile, InvertsTheDistributionFunction) {
  for (const double p :
       {0x1p-33, 1e-6, 0.01, 0.074, 0.076, 0.3, 0.5, 0.77, 0.925, 0.926, 0.999, 1.0 - 0x1p-33}) {
    const double back = 0.5 * std::erfc(-normal_quantile(p) / std::sqrt(2.0));
    EXPECT_NEAR(back, p, 1e-14 * std::max(p, 0.01)) << p;
  }
  EXPECT_NEAR(normal_quantile(0.975), 1.959963984540054, 1e-14);
}

// The matrix of the case: 32 x 1024, spread over 1024, whose deviation must be that of the whole on
// every degree.
TEST(InitialValues, KeepTheDeviationOfTheWholeMatrixInEveryPart_TPP_05) {
  const Init xavier = Init::xavier_normal(1024, 32);
  const std::vector<double> whole = values(32 * 1024, xavier);
  EXPECT_NEAR(deviation(whole), 0.0435, 0.000435);
  for (const std::size_t degree : {2U, 4U, 8U}) {
    const std::size_t columns = 1024 / degree;
    std::vector<double> part(columns);
    for (std::size_t rank = 0; rank < degree; ++rank) {
      for (std::size_t row = 0; row < 32; ++row) {
        const std::size_t begin = row * 1024 + rank * columns;
        fill_initial(part, begin, xavier, 1, "layers.0.weight");
        ASSERT_TRUE(std::equal(
            part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)));
      }
    }
  }
}

TEST(InitialValues, AreTheSameFromAnyFirstElement) {
  for (const Init& init : {Init::normal(0.02), Init::uniform(0.5)}) {
    const std::vector<double> whole = values(103, init);
    for (std::size_t begin = 0; begin < 103; ++begin) {
      const std::vector<double> rest = values(103 - begin, init, begin);
      ASSERT_TRUE(
          std::equal(rest.begin(), rest.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)))
          << begin;
    }
  }
}

TEST(InitialValues, HaveTheMomentsAsked) {
  const std::vector<double> normal = values(200000, Init::normal(0.02));
  EXPECT_NEAR(mean(normal), 0.0, 4 * 0.02 / std::sqrt(200000.0));
  EXPECT_NEAR(deviation(normal), 0.02, 0.0002);
  const std::vector<double> uniform = values(200000, Init::uniform(0.3));
  EXPECT_NEAR(mean(uniform), 0.0, 0.002);
  EXPECT_NEAR(deviation(uniform), 0.3 / std::sqrt(3.0), 0.002);
  for (const double each : uniform) {
    ASSERT_TRUE(each >= -0.3 && each < 0.3);
  }
  EXPECT_EQ(values(3, Init::ones()), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(values(3, Init::zeros()), (std::vector<double>{0, 0, 0}));
}

TEST(InitialValues, DifferBySeedAndName) {
  const std::vector<double> one = values(50, Init::normal(1));
  EXPECT_NE(one, values(50, Init::normal(1), 0, 2));
  EXPECT_NE(one, values(50, Init::normal(1), 0, 1, "layers.1.weight"));
}

// Frozen: a model of an old run must start the same with a new build.
TEST(InitialValues, StayWhatTheyWere) {
  const std::vector<double> now = values(3, Init::normal(1), 0, 42, "head.weight");
  EXPECT_NEAR(now[0], 2.2411100203134593, 1e-14);
  EXPECT_NEAR(now[1], -0.39555083403538216, 1e-14);
  EXPECT_NEAR(now[2], 1.2804712170114276, 1e-14);
}

}  // namespace
}  // namespace lockstep::nn
