// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/tensor/dropout.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/philox.h"

namespace lockstep::tensor {
namespace {

const DropoutSite kSite{.id = hash_name("layers.2.mlp"), .rate = 0.5};

ForwardContext of(std::vector<std::int64_t> samples) {
  return {.training = true, .seed = 21, .step = 4, .samples = std::move(samples)};
}

// Two data-parallel ranks with a sample of 1000 elements each: what each rank drops is what one rank with both would, and the
// two samples differ.
TEST(Dropout, MasksASampleTheSameOnAnyRankAndTwoSamplesDifferently_TPP_04) {
  const at::Tensor x = at::ones({2, 1000});
  const at::Tensor together = dropout(x, kSite, of({8, 3}));
  const at::Tensor first = dropout(x.narrow(0, 0, 1), kSite, of({8}));
  const at::Tensor second = dropout(x.narrow(0, 1, 1), kSite, of({3}));
  EXPECT_TRUE(at::equal(together, at::cat({first, second})));
  EXPECT_NEAR(first.eq(second).sum().item<double>(), 500, 80);
}

TEST(Dropout, ScalesWhatItKeepsAndSendsGradientsTheSameWay) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor x = at::full({3, 50, 40}, 3.0, type).set_requires_grad(true);
    const DropoutSite site{.id = 5, .rate = 0.2};
    const at::Tensor y = dropout(x, site, of({1, 2, 3}));
    y.sum().backward();
    EXPECT_EQ(y.scalar_type(), type);
    EXPECT_TRUE(at::equal(y, x.grad() * 3));
    EXPECT_NEAR(y.eq(0).to(at::kDouble).mean().item<double>(), 0.2, 0.03);
    EXPECT_NEAR(y.max().item<double>(), 3.75, 0.02);
  }
}

TEST(Dropout, IsTheSameForAViewWithOtherStrides) {
  const at::Tensor x = at::arange(2 * 30 * 20, at::kFloat).view({2, 20, 30}).transpose(1, 2) + 1;
  EXPECT_TRUE(at::equal(dropout(x, kSite, of({1, 2})), dropout(x.contiguous(), kSite, of({1, 2}))));
}

TEST(Dropout, LetsEverythingThroughOutsideTrainingAndAtRateZero) {
  const at::Tensor x = at::ones({2, 10});
  EXPECT_TRUE(dropout(x, {.id = 1, .rate = 0.0}, of({1, 2})).is_same(x));
  ForwardContext evaluation = of({1, 2});
  evaluation.training = false;
  EXPECT_TRUE(dropout(x, kSite, evaluation).is_same(x));
}

TEST(Dropout, NeedsAnIdForEachRow) {
  try {
    dropout(at::ones({2, 10}), kSite, of({1, 2, 3}));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("expected 2 ids, found 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::tensor
