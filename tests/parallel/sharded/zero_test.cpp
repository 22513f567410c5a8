// SPDX-License-Identifier: Apache-2.0
// What sharding the update keeps and sends; that it changes no result is parity_test's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/sgd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/memory.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/pure/recorder.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/sharded/data_parallel.h"

#include "parallel/sharded/small_models.h"
#include "support/complaint.h"
#include "support/run_ranks.h"

namespace lockstep::test {
namespace {

using optim::make_optimizer;
using testing::HasSubstr;

at::Tensor input(int rank, int step, std::int64_t width) {
  return (at::arange(width, at::kFloat) * (rank + 1) + step).sin().unsqueeze(0);
}

// Values that do not depend on the generator that the ranks' threads share.
void start_at_sines(torch::nn::Module& model) {
  at::NoGradGuard no_grad;
  double phase = 0;
  for (at::Tensor& parameter : model.parameters())
    parameter.copy_((at::arange(parameter.numel()) + ++phase).sin().view(parameter.sizes()) * 0.3);
}

std::int64_t parameters_of(const torch::nn::Module& module) {
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : module.parameters())
    elements += parameter.numel();
  return elements;
}

TEST(ZeroOne, SendsAsMuchAsDdp) {
  for (const int ranks : {2, 4}) {
    run_ranks(ranks, [&](World& world) {
      Layers model({"a", "b", "c"}, 64);
      DataParallel engine(model, world.all(), {.zero = 1});
      const auto optimizer = make_optimizer(engine, {});
      std::int64_t sent = 0;
      for (int step = 1; step <= 3; ++step) {
        const std::int64_t before = world.recorder().totals().sent_bytes;
        model.forward(input(world.rank().value, step, 64)).sum().backward();
        optimizer->step();
        optimizer->zero_grad();
        sent = world.recorder().totals().sent_bytes - before;
      }
      const double formula =
          2.0 * 4 * static_cast<double>(parameters_of(model)) * (ranks - 1) / ranks;
      // Marks of the parameters, norms and the padding of buckets come on top.
      EXPECT_GT(static_cast<double>(sent), formula);
      EXPECT_LT(static_cast<double>(sent), formula * 1.01) << ranks << " ranks";
    });
  }
}

TEST(ZeroOne, HoldsStateOfItsPartOnly) {
  constexpr int kRanks = 3;
  run_ranks(kRanks, [](World& world) {
    Layers model({"a", "b"}, 33);
    DataParallel engine(model, world.all(), {.zero = 1, .bucket_bytes = 2000});
    const auto optimizer = make_optimizer(engine, {.name = "adamw"});
    model.forward(input(world.rank().value, 1, 33)).sum().backward();
    optimizer->step();
    std::map<std::string, std::int64_t> held;
    for (const optim::NamedState& state : optimizer->state())
      held[state.name] = state.tensor.numel();
    std::int64_t mine = 0;
    for (const auto& [name, elements] : held)
      mine += elements;
    const auto all = world.all().gather_text(cat(mine), "elements of state");
    std::int64_t sum = 0;
    for (const std::string& elements : all) {
      sum += *parse_int(elements);
      // Of each bucket a part is a whole number of 64 bytes.
      EXPECT_LE(*parse_int(elements), 2 * (parameters_of(model) / kRanks + 4 * 16 * kRanks));
    }
    EXPECT_EQ(sum, 2 * parameters_of(model));
  });
}

TEST(ZeroOne, ClipsByTheNormOverAllParts_FSD_08) {
  // The gradients 3 and 4 lie on different ranks: buckets of one element are cut into 64 bytes a rank.
  for (const int zero : {0, 1}) {
    run_ranks(2, [&](World& world) {
      Scalars model({{"a", 1}, {"b", 1}});
      torch::nn::Module& module = model;
      DataParallel engine(module, world.all(), {.zero = zero});
      const auto optimizer =
          make_optimizer(engine, {.name = "sgd", .lr = 1, .weight_decay = 0, .clip = 1});
      (model["a"] * 3 + model["b"] * 4).backward();
      const optim::StepResult step = optimizer->step();
      EXPECT_NEAR(step.grad_norm, 5, 1e-6);
      EXPECT_NEAR(model["a"].item<float>(), 1 - 0.6, 1e-6);
      EXPECT_NEAR(model["b"].item<float>(), 1 - 0.8, 1e-6);
    });
  }
}

// Unused, shared, and several synchronised backwards in a step: the same numbers at every level.
TEST(Zero, IsTheSameMathematicsAtEveryLevel_FSD_12) {
  for (const int accumulation : {1, 3}) {
    for (const bool local : {true, false}) {
      run_ranks(3, [&](World& world) {
        std::map<int, std::vector<double>> losses;
        for (const int zero : {0, 1}) {
          Layers model({"shared", "unused", "last"}, 8);
          start_at_sines(model);
          DataParallel engine(model, world.all(), {.zero = zero, .bucket_bytes = 300});
          const auto optimizer = make_optimizer(engine, {.lr = 1e-2});
          for (int step = 1; step <= 10; ++step) {
            for (int k = 0; k < accumulation; ++k) {
              std::optional<NoSync> held;
              if (local && k + 1 < accumulation)
                held.emplace(engine.no_sync());
              const at::Tensor x = input(world.rank().value, step * 7 + k, 8);
              const at::Tensor y = model.forward(model.forward(x, {"unused", "last"}), {"unused"});
              const at::Tensor loss = y.square().mean();
              loss.backward();
              losses[zero].push_back(loss.item<double>());
            }
            optimizer->step();
            optimizer->zero_grad();
          }
          engine.check_in_sync();
        }
        for (std::size_t at = 0; at < losses[0].size(); ++at)
          EXPECT_NEAR(losses[1][at], losses[0][at], 1e-6) << "loss " << at;
      });
    }
  }
}

TEST(Zero, GivesTheSameBitsForEveryBucketSize_FSD_13) {
  for (const int zero : {0, 1}) {
    run_ranks(2, [&](World& world) {
      std::vector<at::Tensor> weights;
      for (const std::int64_t cap : {4, 16, 32, 4000}) {
        torch::nn::Module model;
        at::Tensor all = at::zeros({0});
        int number = 0;
        for (const std::int64_t elements : {3, 5, 2, 11})
          model.register_parameter(cat("p", number++), at::linspace(0.1, 1, elements));
        DataParallel engine(model, world.all(), {.zero = zero, .bucket_bytes = cap});
        const auto optimizer = make_optimizer(engine, {.lr = 1e-2});
        for (int step = 1; step <= 10; ++step) {
          at::Tensor loss = at::zeros({});
          for (const at::Tensor& p : model.parameters())
            loss = loss + (p * input(world.rank().value, step, p.numel())[0]).square().sum();
          loss.backward();
          optimizer->step();
          optimizer->zero_grad();
        }
        std::vector<at::Tensor> flat;
        for (const at::Tensor& p : model.parameters())
          flat.push_back(p.detach().flatten());
        weights.push_back(at::cat(flat));
      }
      for (const at::Tensor& other : weights)
        EXPECT_TRUE(at::equal(other, weights[0])) << "zero " << zero;
    });
  }
}

TEST(ZeroOne, CountsStepsAParameterOnEveryRank) {
  run_ranks(3, [](World& world) {
    Scalars model({{"a", 1}, {"b", 1}, {"c", 1}});
    DataParallel engine(model, world.all(), {.zero = 1});
    const auto optimizer = make_optimizer(engine, {});
    for (int step = 1; step <= 3; ++step) {
      at::Tensor loss = model["a"] + model["c"];
      if (step != 2)
        loss = loss + model["b"];
      loss.backward();
      optimizer->step();
      optimizer->zero_grad();
    }
    EXPECT_EQ(optimizer->step_counts(),
              (std::map<std::string, std::int64_t>{{"a", 3}, {"b", 2}, {"c", 3}}));
  });
}

TEST(ZeroOne, RefusesWhatItCannotShard) {
  run_ranks(2, [](World& world) {
    Layers model({"a"}, 4);
    EXPECT_THAT(complaint(Fault::Config, [&] { DataParallel(model, world.all(), {.zero = 7}); }),
                HasSubstr("parallel.zero"));
    DataParallel engine(model, world.all(), {.zero = 1});
    torch::optim::SGD theirs(model.parameters(), 0.1);
    EXPECT_THAT(complaint(Fault::Config, [&] { optim::adapt(engine, theirs); }),
                HasSubstr("updates whole parameters"));

    torch::nn::Module tied;
    const at::Tensor memory = at::ones({8});
    tied.register_parameter("half", memory.narrow(0, 0, 4));
    EXPECT_THAT(complaint(Fault::Config, [&] { DataParallel(tied, world.all(), {.zero = 1}); }),
                testing::AllOf(HasSubstr("half"), HasSubstr("shares its memory")));
  });
}

TEST(ZeroOne, LeavesNoPartOfAGradientToBeTakenForIt) {
  run_ranks(2, [](World& world) {
    Layers model({"a"}, 4);
    DataParallel engine(model, world.all(), {.zero = 1});
    model.forward(input(world.rank().value, 1, 4)).sum().backward();
    for (const at::Tensor& parameter : model.parameters())
      EXPECT_FALSE(parameter.grad().defined());
  });
}

}  // namespace
}  // namespace lockstep::test
