// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/tensor/pure/keep_mask.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/philox.h"

namespace lockstep::tensor {
namespace {

std::vector<float> mask(std::size_t count,
                        double rate,
                        const MaskSource& source,
                        std::uint64_t begin = 0) {
  std::vector<float> out(count);
  fill_keep_mask(out, begin, source, drop_threshold(rate), 1.0F);
  return out;
}

const MaskSource kSource{.seed = 3, .site = hash_name("layers.1.mlp"), .step = 7, .sample = 11};

TEST(KeepMask, IsThatOfPhiloxElementByElement) {
  const std::vector<float> fast = mask(1000, 0.4, kSource);
  const std::uint64_t key = mix(mix(3) ^ kSource.site);
  for (std::uint32_t element = 0; element < 1000; ++element) {
    const auto words = philox({8 * (element / 32) + element % 8, 11, 0, 7}, key);
    const bool dropped = words[(element % 32) / 8] < static_cast<std::uint32_t>(0.4 * 0x1p32);
    ASSERT_EQ(fast[element], dropped ? 0.0F : 1.0F) << element;
  }
}

TEST(KeepMask, IsTheSameFromAnyFirstElement) {
  const std::vector<float> whole = mask(200, 0.5, kSource);
  for (std::size_t begin = 0; begin < 200; ++begin) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{31}, 200 - begin}) {
      const std::vector<float> part = mask(std::min(count, 200 - begin), 0.5, kSource, begin);
      ASSERT_TRUE(
          std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)))
          << begin;
    }
  }
}

TEST(KeepMask, DropsTheShareAsked) {
  for (const double rate : {0.0, 0.1, 0.5, 0.9}) {
    double kept = 0.0;
    for (const float each : mask(400000, rate, kSource)) {
      kept += each;
    }
    EXPECT_NEAR(1.0 - kept / 400000, rate, 5 * std::sqrt(rate * (1 - rate) / 400000)) << rate;
  }
}

TEST(KeepMask, DiffersBySeedSiteStepAndSample) {
  const std::vector<float> one = mask(1000, 0.5, kSource);
  for (const MaskSource& other : {MaskSource{4, kSource.site, 7, 11},
                                  MaskSource{3, hash_name("layers.2.mlp"), 7, 11},
                                  MaskSource{3, kSource.site, 8, 11},
                                  MaskSource{3, kSource.site, 7, 12},
                                  MaskSource{3, kSource.site, 7, 11 + (std::int64_t{1} << 32)}}) {
    int equal = 0;
    const std::vector<float> two = mask(1000, 0.5, other);
    for (std::size_t i = 0; i < 1000; ++i) {
      equal += one[i] == two[i] ? 1 : 0;
    }
    EXPECT_NEAR(equal, 500, 80);
  }
}

TEST(KeepMask, IsTheSameInBothTypes) {
  std::vector<double> wide(77);
  fill_keep_mask(wide, 5, kSource, drop_threshold(0.3), 1.0);
  const std::vector<float> narrow = mask(77, 0.3, kSource, 5);
  EXPECT_TRUE(std::equal(wide.begin(), wide.end(), narrow.begin()));
}

}  // namespace
}  // namespace lockstep::tensor
