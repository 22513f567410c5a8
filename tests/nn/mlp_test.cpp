// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/mlp.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/model/architectures.h"
#include "lockstep/model/model_values.h"
#include "lockstep/model/presets.h"

namespace lockstep::nn {
namespace {

at::Tensor wave(std::int64_t rows, std::int64_t columns) {
  return (at::arange(rows * columns, at::kDouble) * 1.3).sin().view({rows, columns});
}

std::shared_ptr<Model> build(std::int64_t layers, MlpTask task) {
  const MlpConfig config{.layers = layers, .inputs = 6, .width = 9, .outputs = 4, .task = task};
  return build_model(mlp_spec("m", config), {.seed = 3, .dtype = at::kDouble});
}

/// The same written out.
at::Tensor reference(const Model& model, at::Tensor x) {
  const auto parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); i += 2) {
    x = at::matmul(x, parameters[i].t()) + parameters[i + 1];
    if (i + 2 < parameters.size()) {
      x = 0.5 * x * (1 + (0.7978845608028654 * (x + 0.044715 * x.pow(3))).tanh());
    }
  }
  return x;
}

TEST(Models, OfEveryPresetHaveTheParametersOfTheirSpecification) {
  for (const Preset& row : presets()) {
    const ModelSpec spec = make_model({.preset = std::string(row.name)});
    if (spec.parameter_elements() > 10'000'000) {
      continue;  // the same code builds it; 124 million values take seconds
    }
    const auto named = build_model(spec)->named_parameters();
    ASSERT_EQ(named.size(), spec.parameters.size()) << row.name;
    std::int64_t elements = 0;
    for (std::size_t i = 0; i < named.size(); ++i) {
      EXPECT_EQ(named[i].key(), spec.parameters[i].name);
      EXPECT_EQ(named[i].value().sizes().vec(), spec.parameters[i].shape) << named[i].key();
      elements += named[i].value().numel();
    }
    EXPECT_EQ(elements, spec.parameter_elements()) << row.name;
  }
}

TEST(Models, MustHaveAFloatingType) {
  EXPECT_THROW(build_model(make_model({.preset = "mlp"}), {.dtype = at::kLong}), Error);
}

TEST(Mlp, ClassifiesByTheFormulas) {
  for (const std::int64_t layers : {1, 2, 3}) {
    const auto model = build(layers, MlpTask::Classification);
    const at::Tensor x = wave(7, 6);
    at::Tensor targets = at::arange(7, at::kLong).remainder(4);
    targets[2] = -100;
    const LossSum loss = model->loss(x, targets, {});
    const at::Tensor want =
        at::cross_entropy_loss(reference(*model, x), targets, {}, at::Reduction::Sum);
    EXPECT_EQ(loss.count.item<std::int64_t>(), 6);
    EXPECT_NEAR(loss.sum.item<double>(), want.item<double>(), 1e-12);
    loss.sum.backward();
    for (const at::Tensor& parameter : model->parameters()) {
      EXPECT_GT(parameter.grad().abs().max().item<double>(), 1e-6);
    }
  }
}

TEST(Mlp, RegressesOnSquaredErrorsCountedByOutput) {
  const auto model = build(2, MlpTask::Regression);
  const at::Tensor x = wave(5, 6);
  const at::Tensor targets = wave(5, 4) * 2;
  const LossSum loss = model->loss(x, targets, {});
  EXPECT_EQ(loss.count.item<std::int64_t>(), 20);
  EXPECT_NEAR(loss.sum.item<double>(),
              (reference(*model, x) - targets).square().sum().item<double>(),
              1e-12);
  EXPECT_THROW(model->loss(x, targets.slice(1, 0, 1), {}), Error);  // would broadcast silently
}

}  // namespace
}  // namespace lockstep::nn
