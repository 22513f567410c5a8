// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/gpt.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/model/architectures.h"
#include "lockstep/model/model_values.h"

#include "nn/reference_gpt.h"

namespace lockstep {
namespace {

using nn::BuildOptions;
using nn::Gpt;
using test::copy_parameters;
using test::NamedTensors;
using test::reference_logits;

// Sizes that are all different, so that a mistaken dim shows.
ModelSpec small(std::int64_t kv_heads = 4, bool tied = false, double dropout = 0.0) {
  return gpt_spec("small",
                  {.layers = 3,
                   .width = 20,
                   .heads = 4,
                   .kv_heads = kv_heads,
                   .ffn_width = 28,
                   .vocab = 31,
                   .context = 11,
                   .dropout = dropout,
                   .tied = tied});
}

std::shared_ptr<Gpt> build(const ModelSpec& spec, std::uint64_t seed = 1) {
  return std::make_shared<Gpt>(spec, BuildOptions{.seed = seed, .dtype = at::kDouble});
}

at::Tensor tokens(std::int64_t rows, std::int64_t columns, std::int64_t vocab, std::int64_t salt) {
  const at::Tensor place = at::arange(rows * columns, at::kLong);
  return (place * place * 7 + place * 3 + salt).remainder(vocab).view({rows, columns});
}

ForwardContext training(std::vector<std::int64_t> samples, std::int64_t step = 1) {
  return {.training = true, .seed = 9, .step = step, .samples = std::move(samples)};
}

/// Moves the starting values away from 0 and 1, so that every parameter has a say.
void disturb(Gpt& model) {
  const at::NoGradGuard no_gradients;
  std::int64_t salt = 1;
  for (at::Tensor& parameter : model.parameters()) {
    const at::Tensor wave =
        (at::arange(parameter.numel(), at::kDouble) * 1.7 + static_cast<double>(salt++)).sin();
    parameter.add_(0.2 * wave.view(parameter.sizes()));
  }
}

class GptOfAnyShape : public testing::TestWithParam<std::pair<std::int64_t, bool>> {};
INSTANTIATE_TEST_SUITE_P(HeadsAndTying,
                         GptOfAnyShape,
                         testing::Values(std::pair{4, false},
                                         std::pair{4, true},
                                         std::pair{2, false},
                                         std::pair{1, true}));

TEST_P(GptOfAnyShape, HasTheLossAndGradientsOfTheFormulas) {
  const ModelSpec spec = small(GetParam().first, GetParam().second);
  const auto model = build(spec);
  disturb(*model);
  const at::Tensor ids = tokens(3, 7, 31, 5);
  at::Tensor targets = tokens(3, 7, 31, 2);
  targets[1][3] = -100;

  const LossSum loss = model->loss(ids, targets, training({}));
  loss.sum.backward();

  const NamedTensors copies = copy_parameters(*model);
  const at::Tensor logits = reference_logits(copies, spec.gpt(), ids).view({21, 31});
  const at::Tensor expected =
      at::cross_entropy_loss(logits, targets.view({21}), {}, at::Reduction::Sum);
  expected.backward();

  EXPECT_EQ(loss.count.item<std::int64_t>(), 20);
  EXPECT_NEAR(loss.sum.item<double>(), expected.item<double>(), 1e-11 * expected.item<double>());
  for (const auto& item : model->named_parameters()) {
    const at::Tensor want = copies.at(item.key()).grad();
    EXPECT_GT(want.abs().max().item<double>(), 1e-12) << item.key();
    EXPECT_LT((item.value().grad() - want).abs().max().item<double>(), 1e-10) << item.key();
  }
}

TEST_P(GptOfAnyShape, HasTheParametersOfItsSpecification) {
  const ModelSpec spec = small(GetParam().first, GetParam().second);
  const auto named = build(spec)->named_parameters();
  ASSERT_EQ(named.size(), spec.parameters.size());
  for (std::size_t i = 0; i < named.size(); ++i) {
    EXPECT_EQ(named[i].key(), spec.parameters[i].name);
    EXPECT_EQ(named[i].value().sizes().vec(), spec.parameters[i].shape) << named[i].key();
    EXPECT_TRUE(named[i].value().requires_grad() && named[i].value().is_leaf()) << named[i].key();
  }
}

TEST_P(GptOfAnyShape, GivesWithACacheTheLogitsItGivesWithout) {
  const auto model = build(small(GetParam().first, GetParam().second));
  disturb(*model);
  const at::Tensor ids = tokens(2, 9, 31, 8);
  const at::Tensor whole = model->forward(ids, {});
  nn::KvCache cache;
  std::int64_t at = 0;
  for (const std::int64_t count : {4, 1, 3, 1}) {  // prompt, one, several, one
    const at::Tensor last = model->next_logits(ids.narrow(1, at, count), cache);
    at += count;
    EXPECT_EQ(cache.length, at);
    EXPECT_LT((last - whole.select(1, at - 1)).abs().max().item<double>(), 1e-12) << at;
  }
}

TEST(Gpt, GradientIsTheSlopeOfTheLoss) {
  const auto model = build(small(2));
  disturb(*model);
  const at::Tensor ids = tokens(2, 11, 31, 1);
  const at::Tensor targets = tokens(2, 11, 31, 4);
  model->loss(ids, targets, training({})).sum.backward();
  const at::NoGradGuard no_gradients;
  const auto loss_now = [&] { return model->loss(ids, targets, training({})).sum.item<double>(); };
  constexpr double kStep = 1e-5;
  for (const auto& item : model->named_parameters()) {
    at::Tensor flat = item.value().view({-1});
    const std::int64_t at = flat.numel() / 3;
    const double value = flat[at].item<double>();
    flat[at] = value + kStep;
    const double above = loss_now();
    flat[at] = value - kStep;
    const double below = loss_now();
    flat[at] = value;
    EXPECT_NEAR(
        item.value().grad().view({-1})[at].item<double>(), (above - below) / (2 * kStep), 1e-6)
        << item.key();
  }
}

TEST(Gpt, NeverLooksAhead) {
  const auto model = build(small());
  disturb(*model);
  const at::Tensor ids = tokens(2, 10, 31, 3);
  at::Tensor changed = ids.clone();
  changed.narrow(1, 6, 4).add_(5).remainder_(31);
  const at::Tensor before = model->forward(ids, {});
  const at::Tensor after = model->forward(changed, {});
  EXPECT_TRUE(at::equal(before.narrow(1, 0, 6), after.narrow(1, 0, 6)));
  EXPECT_GT((before - after).narrow(1, 6, 4).abs().amax({0, 2}).min().item<double>(), 1e-6);
}

TEST(Gpt, StartsTheSameHoweverItIsBuiltAndLeavesTorchsGeneratorAlone) {
  at::manual_seed(3);
  const at::Tensor drawn = at::rand({4});
  at::manual_seed(3);
  const auto alone = build(small());
  EXPECT_TRUE(at::equal(at::rand({4}), drawn));
  build(small(2), 5);
  const auto later = build(small());
  const auto other = build(small(), 2);
  const NamedTensors copies = copy_parameters(*later);
  const NamedTensors others = copy_parameters(*other);
  for (const auto& item : alone->named_parameters()) {
    EXPECT_TRUE(at::equal(item.value(), copies.at(item.key()))) << item.key();
    if (item.value().dim() == 2) {
      EXPECT_FALSE(at::equal(item.value(), others.at(item.key()))) << item.key();
    }
  }
  const auto single = std::make_shared<Gpt>(small(), BuildOptions{.seed = 1});
  for (const auto& item : single->named_parameters()) {
    EXPECT_TRUE(at::equal(item.value(), copies.at(item.key()).to(at::kFloat))) << item.key();
  }
}

TEST(Gpt, GuessesEvenlyAtTheStart) {
  const auto model = std::make_shared<Gpt>(make_model({.preset = "tiny"}), BuildOptions{});
  const LossSum loss = model->loss(tokens(2, 96, 256, 1), tokens(2, 96, 256, 9), training({}));
  EXPECT_EQ(loss.count.item<std::int64_t>(), 192);
  EXPECT_NEAR(loss.sum.item<double>() / 192, std::log(256.0), 0.1);
}

TEST(GptDropout, GivesASampleTheSameMaskAloneAndInABatch) {
  const auto model = build(small(4, false, 0.3));
  disturb(*model);
  const at::Tensor ids = tokens(3, 8, 31, 6);
  const at::Tensor batch = model->forward(ids, training({70, 4, 12}));
  for (const auto& [row, sample] : {std::pair{0, 70}, std::pair{1, 4}, std::pair{2, 12}}) {
    const at::Tensor alone = model->forward(ids.narrow(0, row, 1), training({sample}));
    EXPECT_LT((alone[0] - batch[row]).abs().max().item<double>(), 1e-12) << row;
  }
  EXPECT_GT((model->forward(ids, training({71, 4, 12}))[0] - batch[0]).abs().max().item<double>(),
            1e-3);
  EXPECT_GT((model->forward(ids, training({70, 4, 12}, 2)) - batch).abs().max().item<double>(),
            1e-3);
  EXPECT_TRUE(at::equal(model->forward(ids, training({70, 4, 12})), batch));
}

TEST(GptDropout, ActsAtEverySiteOfEveryLayerAndNotInEvaluation) {
  const ModelSpec with = small(4, false, 0.3);
  const auto model = build(with);
  const auto plain = build(small());
  const at::Tensor ids = tokens(2, 8, 31, 6);
  ForwardContext evaluation = training({1, 2});
  evaluation.training = false;
  EXPECT_TRUE(at::equal(model->forward(ids, evaluation), plain->forward(ids, {})));
  EXPECT_TRUE(at::equal(model->forward(ids, evaluation), model->forward(ids, evaluation)));
  EXPECT_THROW(model->forward(ids, training({1})), Error);  // one id short
}

TEST(GptDropout, BackwardUsesTheMasksOfForward) {
  const auto model = build(small(4, false, 0.4));
  disturb(*model);
  const at::Tensor ids = tokens(2, 9, 31, 2);
  const at::Tensor targets = tokens(2, 9, 31, 7);
  const ForwardContext context = training({5, 8}, 3);
  model->loss(ids, targets, context).sum.backward();
  const at::NoGradGuard no_gradients;
  for (const auto& item : model->named_parameters()) {
    at::Tensor flat = item.value().view({-1});
    const std::int64_t at = flat.numel() / 2;
    const double value = flat[at].item<double>();
    flat[at] = value + 1e-5;
    const double above = model->loss(ids, targets, context).sum.item<double>();
    flat[at] = value - 1e-5;
    const double below = model->loss(ids, targets, context).sum.item<double>();
    flat[at] = value;
    EXPECT_NEAR(item.value().grad().view({-1})[at].item<double>(), (above - below) / 2e-5, 1e-6)
        << item.key();
  }
}

TEST(Gpt, RunsEveryUnitThroughItsRegion) {
  struct Names : Region {
    std::vector<std::string> seen;
    Tensors run(std::string_view name, const Tensors& inputs, const RegionBody& body) override {
      seen.emplace_back(name);
      return body(inputs);
    }
  };
  const auto region = std::make_shared<Names>();
  const ModelSpec spec = small();
  const auto model = std::make_shared<Gpt>(spec, BuildOptions{.region = region});
  model->loss(tokens(1, 5, 31, 1), tokens(1, 5, 31, 2), training({}));
  EXPECT_EQ(region->seen, spec.units);
}

TEST(Gpt, NamesTheTokenOrTheLengthThatDoesNotFit) {
  const auto model = build(small());
  const auto text_of = [&](const at::Tensor& ids, const at::Tensor& targets) -> std::string {
    try {
      model->loss(ids, targets, training({}));
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Usage);
      return error.what();
    }
    return "no error";
  };
  const at::Tensor good = tokens(1, 5, 31, 1);
  at::Tensor bad = good.clone();
  bad[0][2] = 31;
  EXPECT_NE(text_of(bad, good).find("expected 0 to 30, found 31"), std::string::npos);
  EXPECT_NE(text_of(good, bad).find("expected 0 to 30, found 31"), std::string::npos);
  const at::Tensor lengthy = tokens(1, 12, 31, 1);
  EXPECT_NE(text_of(lengthy, lengthy).find("expected at most 11 tokens, found 12"),
            std::string::npos);
}

TEST(Gpt, FindsBadTokensInAnyPlace) {
  const auto model = build(small());
  at::Tensor ids = tokens(2, 4, 31, 1);
  ids[1][3] = -1;
  EXPECT_THROW(model->forward(ids, {}), Error);
}

}  // namespace
}  // namespace lockstep
