// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/tensor/loss.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::tensor {
namespace {

struct Case {
  at::Tensor x;
  at::Tensor weight;
  at::Tensor targets;
};

Case make(std::int64_t rows, std::int64_t width, std::int64_t vocab, at::ScalarType type) {
  const auto wave = [&](std::int64_t a, std::int64_t b, double pitch) {
    return (at::arange(a * b, at::kDouble) * pitch).sin().mul(1.5).view({a, b}).to(type);
  };
  const at::Tensor place = at::arange(rows, at::kLong);
  return {wave(rows, width, 1.3).set_requires_grad(true),
          wave(vocab, width, 0.7).set_requires_grad(true),
          (place * place * 3 + 1).remainder(vocab)};
}

/// The same with all logits at once, in fp64.
struct Whole {
  at::Tensor sum;
  at::Tensor grad_x;
  at::Tensor grad_weight;
};

Whole whole(const Case& c, double smoothing = 0.0) {
  const at::Tensor x = c.x.detach().to(at::kDouble).set_requires_grad(true);
  const at::Tensor weight = c.weight.detach().to(at::kDouble).set_requires_grad(true);
  const at::Tensor sum = at::cross_entropy_loss(
      at::matmul(x, weight.t()), c.targets, {}, at::Reduction::Sum, -100, smoothing);
  (sum * 0.25).backward();
  return {sum, x.grad(), weight.grad()};
}

double furthest(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b).abs().max() / b.square().mean().sqrt()).item<double>();
}

class LossInChunks : public testing::TestWithParam<std::tuple<std::int64_t, double>> {};
INSTANTIATE_TEST_SUITE_P(RowsAndSmoothing,
                         LossInChunks,
                         testing::Combine(testing::Values(1, 4, 7, 23, 24, 0),
                                          testing::Values(0.0, 0.1)));

TEST_P(LossInChunks, IsTheCrossEntropyOfAllLogitsInValueAndGradients) {
  const auto [chunk, smoothing] = GetParam();
  for (const auto& [type, tolerance] :
       {std::pair{at::kDouble, 1e-12}, std::pair{at::kFloat, 1e-5}}) {
    Case c = make(23, 10, 17, type);
    c.targets[0] = -100;
    c.targets[11] = -100;
    const LossSum loss = chunked_cross_entropy(
        c.x, c.weight, c.targets, {.label_smoothing = smoothing, .chunk_rows = chunk});
    (loss.sum * 0.25).backward();
    const Whole want = whole(c, smoothing);
    EXPECT_EQ(loss.count.item<std::int64_t>(), 21);
    EXPECT_NEAR(
        loss.sum.item<double>(), want.sum.item<double>(), tolerance * want.sum.item<double>());
    EXPECT_LT(furthest(c.x.grad(), want.grad_x), tolerance);
    EXPECT_LT(furthest(c.weight.grad(), want.grad_weight), tolerance);
    EXPECT_EQ(c.x.grad()[11].abs().max().item<double>(), 0.0);
  }
}

TEST(ChunkedLoss, WorksInBf16WithSumsInFp32) {
  const Case c = make(200, 32, 50, at::kBFloat16);
  const LossSum loss = chunked_cross_entropy(c.x, c.weight, c.targets, {.chunk_rows = 3});
  (loss.sum * 0.25).backward();
  const Whole want = whole(c);
  EXPECT_EQ(loss.sum.scalar_type(), at::kFloat);
  EXPECT_EQ(c.weight.grad().scalar_type(), at::kBFloat16);
  EXPECT_NEAR(loss.sum.item<double>(), want.sum.item<double>(), 0.01 * want.sum.item<double>());
  // bf16 has 8 bits: logits up to 70 round by 0.25, so a probability is right to about a fifth.
  EXPECT_LT((c.weight.grad().to(at::kDouble) - want.grad_weight).norm().item<double>(),
            0.1 * want.grad_weight.norm().item<double>());
}

TEST(ChunkedLoss, NeedsNoGradientsOfWhatIsFrozenAndNoneInEvaluation) {
  Case c = make(9, 4, 6, at::kDouble);
  c.weight = c.weight.detach();
  chunked_cross_entropy(c.x, c.weight, c.targets, {.chunk_rows = 4}).sum.backward();
  EXPECT_TRUE(c.x.grad().defined());
  EXPECT_FALSE(c.weight.grad().defined());
  const double want = whole(make(9, 4, 6, at::kDouble)).sum.item<double>();
  const at::NoGradGuard no_gradients;
  const Case d = make(9, 4, 6, at::kDouble);
  const at::Tensor sum = chunked_cross_entropy(d.x, d.weight, d.targets).sum;
  EXPECT_FALSE(sum.requires_grad());
  EXPECT_NEAR(sum.item<double>(), want, 1e-10);
}

TEST(ChunkedLoss, OfNothingButPaddingIsZeroAndSoAreItsGradients) {
  Case c = make(5, 4, 6, at::kFloat);
  c.targets.fill_(-100);
  const LossSum loss = chunked_cross_entropy(c.x, c.weight, c.targets);
  loss.sum.backward();
  EXPECT_EQ(loss.count.item<std::int64_t>(), 0);
  EXPECT_EQ(loss.sum.item<double>(), 0.0);
  EXPECT_EQ(c.weight.grad().abs().max().item<double>(), 0.0);
}

TEST(ChunkedLoss, OfEvenLogitsIsTheLogarithmOfTheVocabulary) {
  const at::Tensor sum =
      chunked_cross_entropy(at::zeros({4, 3}), at::ones({5, 3}), at::arange(4, at::kLong)).sum;
  EXPECT_NEAR(sum.item<double>(), 4 * std::log(5.0), 1e-6);
}

std::int64_t peak_resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) {
      return std::stoll(line.substr(6));
    }
  }
  return -1;
}

// 2048 rows of 20000 logits are 164 MB in fp32; a chunk of 256 is 20 MB, and about three of that size exist.
TEST(ChunkedLoss, NeverHoldsAllLogits) {
  const Case warm = make(300, 8, 20000, at::kFloat);
  chunked_cross_entropy(warm.x, warm.weight, warm.targets).sum.backward();
  const Case c = make(2048, 8, 20000, at::kFloat);
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts anew
  const std::int64_t before = peak_resident_kib();
  chunked_cross_entropy(c.x, c.weight, c.targets).sum.backward();
  const std::int64_t grown = peak_resident_kib() - before;
  EXPECT_LT(grown, 100 * 1024) << "KiB";
}

TEST(ChunkedLoss, RefusesShapesThatDoNotFitAndASecondGradient) {
  const Case c = make(6, 4, 5, at::kDouble);
  EXPECT_THROW(chunked_cross_entropy(c.x, c.weight, c.targets.slice(0, 0, 5)), Error);
  EXPECT_THROW(chunked_cross_entropy(c.x.slice(1, 0, 3), c.weight, c.targets), Error);
  const at::Tensor sum = chunked_cross_entropy(c.x, c.weight, c.targets).sum;
  EXPECT_ANY_THROW(sum.backward({}, /*retain_graph=*/true, /*create_graph=*/true));
}

}  // namespace
}  // namespace lockstep::tensor
