// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/optimizer.h"

#include <limits>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

#include "support/run_ranks.h"

namespace lockstep::test {
namespace {

/// Parameters of sizes that do not divide, one of them not contiguous.
class Odd : public torch::nn::Module {
 public:
  explicit Odd(at::ScalarType type = at::kFloat) {
    int salt = 1;
    for (const auto& [name, sizes] : std::vector<std::pair<std::string, std::vector<std::int64_t>>>{
             {"a", {10}}, {"b", {7, 3}}, {"c", {1}}}) {
      const at::Tensor values =
          (at::arange(c10::multiply_integers(sizes), type) * salt++ + 1).sin().view(sizes);
      register_parameter(
          name,
          name == "b" ? values.t().contiguous().t().clone(at::MemoryFormat::Preserve) : values);
    }
  }
  at::Tensor operator[](const std::string& name) const { return named_parameters()[name]; }

  /// A loss whose gradients depend on the step and the rank.
  at::Tensor loss(int step, int rank = 0, const std::string& without = "") const {
    at::Tensor total = at::zeros({}, parameters()[0].options().requires_grad(false));
    for (const auto& item : named_parameters()) {
      if (item.key() != without)
        total = total + (item.value() * (0.3 + 0.05 * (step + rank))).cos().sum();
    }
    return total;
  }
};

void expect_close(const Odd& ours, const Odd& theirs, double tolerance, const std::string& what) {
  for (const auto& item : ours.named_parameters()) {
    EXPECT_LE((item.value() - theirs[item.key()]).abs().max().item<double>(), tolerance)
        << item.key() << ", " << what;
  }
}

TEST(Optimizer, RefusesAFactorThatIsNotFiniteAndChangesNothing) {
  run_ranks(1, [](World& world) {
    Odd ours, before;
    DataParallel ddp(ours, world.all());
    const auto optimizer = optim::make_optimizer(ddp, {.lr = 0.03});
    for (const double factor :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      ours.loss(1).backward();
      EXPECT_THROW(optimizer->step(factor), Error);
      optimizer->zero_grad();
    }
    expect_close(ours, before, 0, "after refused steps");
    EXPECT_TRUE(optimizer->step_counts().empty());
  });
}

TEST(Optimizer, EqualsLibtorchsAdamWAndSgdPerTensor) {
  run_ranks(1, [](World& world) {
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      const double tolerance = type == at::kDouble ? 1e-13 : 2e-6;
      for (const std::string kind : {"adamw", "sgd", "momentum", "nesterov"}) {
        Odd ours(type), theirs(type);
        DataParallel ddp(ours, world.all());
        optim::OptimizerOptions options{
            .name = kind == "adamw" ? "adamw" : "sgd", .lr = 0.03, .weight_decay = 0.1};
        if (kind == "momentum" || kind == "nesterov")
          options.momentum = 0.9;
        if (kind == "nesterov")
          options.momentum_kind = optim::OptimizerOptions::Momentum::Nesterov;
        const auto optimizer = optim::make_optimizer(ddp, options);
        std::unique_ptr<torch::optim::Optimizer> reference;
        if (kind == "adamw") {
          reference = std::make_unique<torch::optim::AdamW>(
              theirs.parameters(), torch::optim::AdamWOptions(0.03).weight_decay(0.1));
        } else {
          reference = std::make_unique<torch::optim::SGD>(theirs.parameters(),
                                                          torch::optim::SGDOptions(0.03)
                                                              .weight_decay(0.1)
                                                              .momentum(options.momentum)
                                                              .nesterov(kind == "nesterov"));
        }
        for (int step = 1; step <= 20; ++step) {
          const std::string without = step == 3 ? "b" : "";
          ours.loss(step, 0, without).backward();
          theirs.loss(step, 0, without).backward();
          optimizer->step();
          reference->step();
          optimizer->zero_grad();
          reference->zero_grad();
        }
        expect_close(ours, theirs, tolerance, cat(kind, " ", c10::toString(type)));
      }
    }
  });
}

TEST(Optimizer, CountsStepsByParameterNameAndLeavesOutWhatHasNoGradient_FSD_16) {
  run_ranks(3, [](World& world) {
    Odd model;
    DataParallel ddp(model, world.all());
    const auto optimizer =
        optim::make_optimizer(ddp, {.lr = 0.01, .groups = {{.match = "a", .lr = 0.1}}});
    const at::Tensor before = model["b"].detach().clone();
    for (int step = 1; step <= 3; ++step) {
      model.loss(step, world.rank().value, step == 2 ? "b" : "").backward();
      const at::Tensor held = model["b"].detach().clone();
      optimizer->step();
      EXPECT_EQ(at::equal(held, model["b"]), step == 2) << step;
      optimizer->zero_grad();
    }
    EXPECT_EQ(optimizer->step_counts(),
              (std::map<std::string, std::int64_t>{{"a", 3}, {"b", 2}, {"c", 3}}));
    EXPECT_EQ(optimizer->lr_of("a"), 0.1);
    EXPECT_EQ(optimizer->lr_of("c"), 0.01);
    ddp.check_in_sync();
  });
}

TEST(Optimizer, ContinuesFromItsStateBitForBit) {
  run_ranks(2, [](World& world) {
    Odd model, resumed;
    DataParallel ddp(model, world.all()), other(resumed, world.all());
    for (const std::string name : {"adamw", "sgd"}) {
      const optim::OptimizerOptions options{.name = name, .momentum = 0.9};
      const auto optimizer = optim::make_optimizer(ddp, options);
      const auto train = [&](Odd& m, optim::Optimizer& o, int step) {
        m.loss(step, world.rank().value).backward();
        o.step();
        o.zero_grad();
      };
      for (int step = 1; step <= 3; ++step)
        train(model, *optimizer, step);
      const auto second = optim::make_optimizer(other, options);
      {
        at::NoGradGuard no_grad;
        for (const auto& item : model.named_parameters())
          resumed[item.key()].copy_(item.value());
        for (const auto& item : model.named_parameters())
          second->make_state(item.key());
        const auto from = optimizer->state();
        const auto to = second->state();
        ASSERT_EQ(from.size(), to.size());
        ASSERT_EQ(from.size(), name == "adamw" ? 6U : 3U);
        for (std::size_t at = 0; at < from.size(); ++at) {
          ASSERT_EQ(from[at].name, to[at].name);
          EXPECT_EQ(from[at].tensor.sizes(),
                    model[from[at].name.substr(from[at].name.rfind('.') + 1)].sizes());
          at::Tensor(to[at].tensor).copy_(from[at].tensor);
        }
        second->set_step_counts(optimizer->step_counts());
      }
      for (int step = 4; step <= 6; ++step) {
        train(model, *optimizer, step);
        train(resumed, *second, step);
      }
      for (const auto& item : model.named_parameters()) {
        EXPECT_TRUE(at::equal(item.value(), resumed[item.key()])) << name;
      }
    }
    EXPECT_THROW(optim::make_optimizer(ddp, {})->make_state("d"), Error);
  });
}

TEST(Optimizer, ClipsByTheGlobalNormOfTheTrueMean) {
  run_ranks(2, [](World& world) {
    for (const bool counted : {false, true}) {
      Odd model;
      DataParallel ddp(model, world.all());
      const auto optimizer =
          optim::make_optimizer(ddp, {.name = "sgd", .lr = 1, .weight_decay = 0, .clip = 1});
      const at::Tensor a = model["a"].detach().clone(), c = model["c"].detach().clone();
      // The mean gradient is 3 at one element and 4 at another.
      const float share = world.rank().value == 0 ? 0.5F : 1.5F;
      const at::Tensor loss = (model["a"][4] * 3 + model["c"][0] * 4) * share;
      if (counted) {
        ddp.backward(loss * 10, world.rank().value == 0 ? 4 : 16);
      } else {
        loss.backward();
      }
      const optim::StepResult result = optimizer->step();
      EXPECT_NEAR(result.grad_norm, 5, 1e-5) << counted;
      EXPECT_NEAR(result.clip_factor, 0.2, 1e-6);
      EXPECT_NEAR((a - model["a"])[4].item<double>(), 0.6, 1e-6);
      EXPECT_NEAR((c - model["c"])[0].item<double>(), 0.8, 1e-6);
    }
  });
}

TEST(Optimizer, RefusesGradientsThatAreNotFiniteOnEveryRankAndStepsNothing) {
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    run_ranks(2, [bad](World& world) {
      Odd model;
      DataParallel ddp(model, world.all());
      const auto optimizer = optim::make_optimizer(ddp, {});
      const at::Tensor before = model["a"].detach().clone();
      at::Tensor loss = model.loss(1);
      if (world.rank().value == 1)
        loss = loss + (model["b"] * bad).sum();
      loss.backward();
      try {
        optimizer->step();
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::Numeric);
        EXPECT_TRUE(contains(error.what(), "b: the gradient is not finite")) << error.what();
      }
      EXPECT_TRUE(at::equal(before, model["a"]));
      EXPECT_TRUE(optimizer->step_counts().empty());
    });
  }
}

TEST(Optimizer, DrivesAUsersLibtorchOptimizerWithCountsAndClipping) {
  run_ranks(2, [](World& world) {
    Odd ours, theirs;
    DataParallel ddp(ours, world.all()), other(theirs, world.all());
    torch::optim::SGD inner(theirs.parameters(), torch::optim::SGDOptions(0.1));
    const auto adapter = optim::adapt(other, inner, 0.5);
    const auto own =
        optim::make_optimizer(ddp, {.name = "sgd", .lr = 0.1, .weight_decay = 0, .clip = 0.5});
    for (int step = 1; step <= 3; ++step) {
      ddp.backward(ours.loss(step, world.rank().value), 3 + world.rank().value);
      other.backward(theirs.loss(step, world.rank().value), 3 + world.rank().value);
      EXPECT_NEAR(own->step(0.5).grad_norm, adapter->step(0.5).grad_norm, 1e-5);
      own->zero_grad();
      adapter->zero_grad();
    }
    expect_close(ours, theirs, 1e-6, "adapter");
    EXPECT_DOUBLE_EQ(inner.param_groups()[0].options().get_lr(), 0.1);
  });
}

TEST(Optimizer, RefusesGradientsThatWereNotReducedAndChangesNothing) {
  run_ranks(2, [](World& world) {
    for (const bool adapted : {false, true}) {
      for (const bool counted : {false, true}) {
        Odd model;
        DataParallel ddp(model, world.all());
        torch::optim::SGD inner(model.parameters(), torch::optim::SGDOptions(0.1));
        const auto optimizer =
            adapted ? optim::adapt(ddp, inner) : optim::make_optimizer(ddp, {.lr = 0.1});
        const at::Tensor before = model["a"].detach().clone();
        {
          const NoSync local = ddp.no_sync();
          const at::Tensor loss = model.loss(1, world.rank().value);
          counted ? ddp.backward(loss, 3) : loss.backward();
        }
        try {
          optimizer->step();
          ADD_FAILURE() << "no error, adapted " << adapted << " counted " << counted;
        } catch (const Error& error) {
          EXPECT_EQ(error.fault(), Fault::Usage);
          EXPECT_TRUE(contains(error.what(), "without synchronisation")) << error.what();
        }
        EXPECT_TRUE(at::equal(before, model["a"])) << adapted << counted;
        ddp.synchronize();
        optimizer->step();
        ddp.check_in_sync();
        EXPECT_FALSE(at::equal(before, model["a"]));
        optimizer->zero_grad();
        EXPECT_THROW(optimizer->step(), Error) << "a step without a backward";
      }
    }
  });
}

TEST(Optimizer, TellsEverythingThatIsWrongWithItsOptions) {
  run_ranks(1, [](World& world) {
    Odd model;
    DataParallel ddp(model, world.all());
    try {
      optim::make_optimizer(ddp, {.name = "adamW2", .lr = -1, .beta1 = 1});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Config);
      for (const char* part : {"adamW2", "did you mean 'adamw'", "-1", "betas"}) {
        EXPECT_TRUE(contains(error.what(), part)) << error.what();
      }
    }
    for (const optim::OptimizerRow& row : optim::optimizers()) {
      EXPECT_TRUE(row.make(ddp, {.name = std::string(row.name)}));
    }
  });
}

}  // namespace
}  // namespace lockstep::test
