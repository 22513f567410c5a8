// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/data_parallel.h"

#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

#include "parallel/sharded/small_models.h"
#include "support/run_ranks.h"

namespace lockstep::test {
namespace {

TEST(DataParallel, ReducesWhereTheInnerModuleIsCalled_DDP_12) {
  for (const int size : {1, 2, 3, 4}) {
    run_ranks(size, [](World& world) {
      Scalars model({{"w", 0.0F}});
      DataParallel ddp(model, world.all());
      torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(1.0));
      const double target = 1 + 2 * world.rank().value;
      (0.5 * (model["w"] - target).square()).backward();
      optimizer.step();
      EXPECT_FLOAT_EQ(model["w"].item<float>(), static_cast<float>(world.size()));
    });
  }
}

TEST(DataParallel, LeavesWhatNobodyUsedUndefinedAndAveragesTheRestWithZeros_DDP_02) {
  for (const int size : {2, 3, 4}) {
    run_ranks(size, [](World& world) {
      Scalars model({{"everyone", 1.0F}, {"p", 1.0F}, {"q", 1.0F}, {"last", 1.0F}});
      DataParallel ddp(model, world.all());
      torch::optim::SGD optimizer(model.parameters(),
                                  torch::optim::SGDOptions(1.0).weight_decay(0.1));
      const bool last = world.rank().value + 1 == world.size();
      at::Tensor loss = model["everyone"] * 1;
      if (world.rank().value == 0)
        loss = loss + 4 * model["p"];
      if (last)
        loss = loss + 6 * model["last"];
      loss.backward();
      EXPECT_FLOAT_EQ(gradient(model, "p"), 4.0F / static_cast<float>(world.size()));
      EXPECT_FLOAT_EQ(gradient(model, "last"), 6.0F / static_cast<float>(world.size()));
      EXPECT_FALSE(model["q"].grad().defined());
      optimizer.step();
      EXPECT_EQ(model["q"].item<float>(), 1.0F) << "no decay without a gradient";
    });
  }
}

TEST(DataParallel, TellsWhichParametersARankDoesNotUse_DDP_01) {
  run_ranks(2, [](World& world) {
    Layers model({"A", "B", "C"}, 3);
    DataParallel ddp(model, world.all());
    torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.01));
    for (int step = 1; step <= 10; ++step) {
      const bool skip = step >= 5 && world.rank().value == 1;
      const at::Tensor input = at::ones({1, 3}) * step;
      model.forward(input, skip ? std::set<std::string>{"B"} : std::set<std::string>{})
          .sum()
          .backward();
      if (step >= 5 && world.rank().value == 0) {
        EXPECT_TRUE(model.layer("B")->bias.grad().defined());
      }
      if (step >= 5) {
        // dB.bias on rank 0 alone is the column sums of C.weight.
        const at::Tensor alone = model.layer("C")->weight.detach().sum(0);
        EXPECT_TRUE(at::allclose(model.layer("B")->bias.grad(), alone / 2)) << "step " << step;
      }
      optimizer.step();
      optimizer.zero_grad();
    }
    ddp.check_in_sync();
    const ReductionReport report = ddp.report();
    ASSERT_EQ(report.unused.size(), 2U);
    for (std::size_t at = 0; at < 2; ++at) {
      EXPECT_EQ(report.unused[at].parameter, at == 0 ? "B.bias" : "B.weight");
      EXPECT_EQ(report.unused[at].rank, 1);
      EXPECT_EQ(report.unused[at].since_step, 5);
    }
    EXPECT_EQ(report.steps, 10);
  });
}

TEST(DataParallel, ReducesAParameterOnceHoweverOftenItIsUsedOrRecomputed_DDP_03) {
  for (const int size : {2, 3}) {
    run_ranks(size, [](World& world) {
      const int n = world.size();
      const auto x = static_cast<float>(world.rank().value + 1);
      for (const bool recomputed : {false, true}) {
        Scalars model({{"w", 3.0F}, {"outside", 1.0F}});
        DataParallel ddp(model, world.all(), {.bucket_bytes = 1});
        const Body square = [&](const at::Tensor& in) { return model["w"] * model["w"] * in; };
        const Body twice = [&](const at::Tensor& in) {
          return recompute(square, recompute(square, in));
        };
        for (int step = 1; step <= 4; ++step) {
          const at::Tensor input = at::full({}, x).requires_grad_();
          // Alone; then two recomputed blocks, in which w's gradient comes in two parts; then nested.
          const at::Tensor alone = recomputed ? recompute(square, input) : square(input);
          (alone * model["outside"]).backward();
          const float mean_x = static_cast<float>(n + 1) / 2;
          EXPECT_FLOAT_EQ(gradient(model, "w"), 6 * mean_x) << recomputed << " step " << step;
          EXPECT_FLOAT_EQ(gradient(model, "outside"), 9 * mean_x);
          ddp.zero_grad();
          const at::Tensor again = at::full({}, x).requires_grad_();
          (recomputed ? recompute(twice, again) : square(square(again))).backward();
          EXPECT_FLOAT_EQ(gradient(model, "w"), 4 * 27 * mean_x) << recomputed << " step " << step;
          EXPECT_FALSE(model["outside"].grad().defined());
          ddp.zero_grad();
        }
        ddp.check_in_sync();
      }
    });
  }
}

TEST(DataParallel, SynchronisesOnTheLastMicroStepOnly_DDP_06) {
  run_ranks(2, [](World& world) {
    Scalars model({{"w", 1.0F}});
    DataParallel ddp(model, world.all());
    const float gradients[2][2] = {{1, 2}, {3, 8}};
    for (int step = 0; step < 3; ++step) {
      {
        const NoSync local = ddp.no_sync();
        (model["w"] * gradients[world.rank().value][0] / 2).backward();
      }
      (model["w"] * gradients[world.rank().value][1] / 2).backward();
      EXPECT_FLOAT_EQ(gradient(model, "w"), 3.5F);
      step % 2 == 0 ? ddp.zero_grad() : model.zero_grad(/*set_to_none=*/false);
    }
  });
}

TEST(DataParallel, CountsTheGuardWhereBackwardRuns_DDP_07) {
  for (const int size : {2, 3}) {
    run_ranks(size, [](World& world) {
      Scalars model({{"w", 1.0F}, {"v", 2.0F}});
      DataParallel ddp(model, world.all());
      std::vector<float> held;
      for (const int guarded : {3, 0}) {
        const std::int64_t before = ddp.report().reductions;
        for (int micro = 0; micro < 4; ++micro) {
          const at::Tensor loss =
              model["w"] * model["v"] * (micro + 10 * world.rank().value);  // forward outside
          if (micro < guarded) {
            const NoSync outer = ddp.no_sync();
            const NoSync nested = ddp.no_sync();
            loss.backward();
          } else {
            loss.backward();
          }
        }
        held.push_back(gradient(model, "w"));
        EXPECT_EQ(ddp.report().reductions - before, guarded == 3 ? 1 : 4);
        ddp.zero_grad();
      }
      EXPECT_FLOAT_EQ(held[0], held[1]);
      EXPECT_FLOAT_EQ(held[0], 2 * (6 + 4 * 10 * 0.5F * static_cast<float>(world.size() - 1)));
    });
  }
}

TEST(DataParallel, FixesPlacesByTheParameterNotByArrival_DDP_10) {
  for (const std::int64_t cap : {std::int64_t{1}, std::int64_t{1} << 20}) {
    run_ranks(2, [cap](World& world) {
      Scalars model({{"a", 1.0F}, {"b", 1.0F}});
      DataParallel ddp(model, world.all(), {.bucket_bytes = cap});
      const bool first = world.rank().value == 0;
      for (int step = 0; step < 4; ++step) {
        // The one that comes last in forward gets its gradient first.
        at::Tensor chain = at::zeros({});
        for (const char* name : {first ? "a" : "b", first ? "b" : "a"}) {
          const float factor = name[0] == 'a' ? (first ? 1.0F : 3.0F) : (first ? 10.0F : 30.0F);
          chain = chain + model[name] * factor;
        }
        chain.backward();
        EXPECT_FLOAT_EQ(gradient(model, "a"), 2);
        EXPECT_FLOAT_EQ(gradient(model, "b"), 20);
        ddp.zero_grad();
      }
    });
  }
}

/// Sum over this rank's values v of v * w, as one micro step each.
void count_backward(DataParallel& ddp,
                    Scalars& model,
                    const std::vector<double>& values,
                    std::int64_t count) {
  at::Tensor sum = model["w"] * 0;
  for (const double value : values)
    sum = sum + model["w"] * value;
  ddp.backward(sum, count);
}

TEST(DataParallel, DividesByTheGlobalCount_DDP_11) {
  for (const double nominal : {1.0, 4.0}) {
    run_ranks(2, [nominal](World& world) {
      Scalars model({{"w", 1.0F}});
      DataParallel ddp(model, world.all(), {.nominal_count = nominal});
      const bool first = world.rank().value == 0;
      for (int step = 0; step < 3; ++step) {
        count_backward(ddp,
                       model,
                       first ? std::vector<double>{1, 3} : std::vector<double>(6, 1.0),
                       first ? 2 : 6);
        EXPECT_FLOAT_EQ(gradient(model, "w"), 1.25F);
        EXPECT_EQ(ddp.pending_scale(), 1);
        step == 1 ? model.zero_grad(false) : ddp.zero_grad();
      }
      // Micro steps without synchronisation, and with one after each: the same mean over all of them.
      for (const bool guarded : {true, false}) {
        {
          std::optional<NoSync> local;
          if (guarded)
            local.emplace(ddp.no_sync());
          count_backward(
              ddp, model, first ? std::vector<double>{5} : std::vector<double>{}, first ? 1 : 0);
        }
        count_backward(ddp,
                       model,
                       first ? std::vector<double>{1, 3, 7} : std::vector<double>{2},
                       first ? 3 : 1);
        EXPECT_FLOAT_EQ(gradient(model, "w"), 18.0F / 5) << guarded;
        ddp.zero_grad();
      }
      ddp.keep_scale();
      count_backward(ddp, model, {first ? 4.0 : 6.0}, first ? 2 : 6);
      EXPECT_NEAR(gradient(model, "w") * ddp.pending_scale(), 1.25, 1e-6);
      EXPECT_NE(ddp.pending_scale(), 1);
      ddp.finish();
      EXPECT_FLOAT_EQ(gradient(model, "w"), 1.25F);
    });
  }
}

TEST(DataParallel, TakesPartWhereTheLossReachesNoParameter) {
  run_ranks(3, [](World& world) {
    Scalars model({{"w", 1.0F}});
    DataParallel ddp(model, world.all());
    ddp.backward(world.rank().value == 1 ? model["w"] * 6 : at::zeros({}));
    EXPECT_FLOAT_EQ(gradient(model, "w"), 2);
  });
}

struct Ending {
  int steps = 0;
  std::vector<float> gradients;
  std::string error;
};

/// Rank r has `5 - r` batches, whose gradient is 6.
Ending train_uneven(World& world, Uneven uneven) {
  Scalars model({{"w", 1.0F}});
  DataParallel ddp(model, world.all(), {.uneven = uneven});
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
  Ending ending;
  try {
    for (int batch = 0;; ++batch) {
      const bool has = batch < 5 - world.rank().value;
      const StepPlan plan = ddp.agree(has ? Data::Here : Data::Out);
      if (plan == StepPlan::Stop)
        break;
      if (plan == StepPlan::Work)
        (model["w"] * 6).backward();
      ending.gradients.push_back(gradient(model, "w"));
      optimizer.step();
      optimizer.zero_grad();
      ++ending.steps;
    }
    ddp.check_in_sync();
  } catch (const Error& error) {
    ending.error = error.what();
  }
  return ending;
}

TEST(DataParallel, GoesOnOrStopsWhereARankRunsOutOfData_DDP_08) {
  for (const int size : {2, 3}) {
    run_ranks(size, [](World& world) {
      const Ending join = train_uneven(world, Uneven::Join);
      EXPECT_EQ(join.steps, 5);
      EXPECT_FLOAT_EQ(join.gradients[2], 6);
      EXPECT_FLOAT_EQ(join.gradients[4], 6.0F / static_cast<float>(world.size()));
      const Ending active = train_uneven(world, Uneven::JoinActive);
      EXPECT_EQ(active.steps, 5);
      EXPECT_FLOAT_EQ(active.gradients[4], 6);
      EXPECT_EQ(train_uneven(world, Uneven::Stop).steps, 6 - world.size());
      const Ending error = train_uneven(world, Uneven::Error);
      EXPECT_EQ(error.steps, 6 - world.size());
      EXPECT_TRUE(contains(error.error,
                           cat("rank ", world.size() - 1, " finished after ", 6 - world.size())))
          << error.error;
    });
  }
}

TEST(DataParallel, AllowsAnyNumberOfForwardsAndKeepsBuffersSavedForBackward_DDP_16) {
  run_ranks(2, [](World& world) {
    const auto input = [](int rank, int which) {
      return (at::arange(12, at::kDouble).view({4, 3}) * (rank + 1) + which).sin();
    };
    NormNet model(3);
    model.to(at::kDouble);
    NormNet oracle(3);
    oracle.to(at::kDouble);
    DataParallel ddp(model, world.all());
    copy_values(model, oracle);
    std::vector<at::Tensor> expected;
    for (int rank = 0; rank < 2; ++rank) {
      (oracle.forward(input(rank, 1)).square().sum() +
       oracle.forward(input(rank, 2)).square().sum())
          .backward();
    }
    (model.forward(input(world.rank().value, 1)).square().sum() +
     model.forward(input(world.rank().value, 2)).square().sum())
        .backward();
    for (std::size_t at = 0; at < model.parameters().size(); ++at) {
      EXPECT_TRUE(at::allclose(
          model.parameters()[at].grad(), oracle.parameters()[at].grad() / 2, 1e-9, 1e-12))
          << at;
    }
    EXPECT_EQ(ddp.report().reductions, 1);
  });
}

TEST(DataParallel, BringsBuffersTogetherByTheStatedPolicy_DDP_05) {
  for (const auto policy : {BufferPolicy::Rank0, BufferPolicy::Average, BufferPolicy::None}) {
    run_ranks(3, [policy](World& world) {
      NormNet model(2);
      DataParallel ddp(model, world.all(), {.buffers = policy});
      {
        at::NoGradGuard no_grad;
        model.norm->running_mean.fill_(2.0 * world.rank().value);
        model.norm->num_batches_tracked.fill_(7 + world.rank().value);
      }
      ddp.sync_buffers();
      const float expected = policy == BufferPolicy::Rank0 ? 0.0F
                             : policy == BufferPolicy::Average
                                 ? 2.0F
                                 : 2.0F * static_cast<float>(world.rank().value);
      EXPECT_FLOAT_EQ(model.norm->running_mean[1].item<float>(), expected);
      if (policy != BufferPolicy::None) {
        EXPECT_EQ(model.norm->num_batches_tracked.item<std::int64_t>(), 7);
      }
    });
  }
}

TEST(DataParallel, EvaluatesAsTheSavedFileDoesOnceBuffersAreTogether_DDP_05) {
  for (const auto policy : {BufferPolicy::Rank0, BufferPolicy::Average}) {
    run_ranks(2, [policy](World& world) {
      NormNet model(3);
      DataParallel ddp(model, world.all(), {.buffers = policy});
      torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(0.1));
      for (int step = 1; step <= 5; ++step) {
        const at::Tensor input =
            (at::arange(12, at::kFloat).view({4, 3}) + step).sin() * (1 + 3 * world.rank().value);
        model.forward(input).pow(3).sum().backward();
        optimizer.step();
        optimizer.zero_grad();
      }
      const at::Tensor own = model.norm->running_var.clone();
      ddp.sync_buffers();
      const bool moved = !at::allclose(own, model.norm->running_var);
      EXPECT_EQ(moved, policy == BufferPolicy::Average || world.rank().value == 1);

      const at::Tensor held_out = (at::arange(21, at::kFloat).view({7, 3}) * 0.7).cos();
      const auto metric = [&](NormNet& net) {
        const at::NoGradGuard no_grad;
        net.eval();
        return net.forward(held_out).square().mean().item<double>();
      };
      const double logged = metric(model);
      std::stringstream file;
      torch::serialize::OutputArchive out;
      model.save(out);
      out.save_to(file);
      NormNet loaded(3);
      EXPECT_GT(std::abs(metric(loaded) - logged), 1e-6) << "before it is loaded";
      torch::serialize::InputArchive in;
      in.load_from(file);
      loaded.load(in);
      EXPECT_NEAR(metric(loaded), logged, 1e-6);
      for (const std::string& other : world.all().gather_text(cat(logged), "metric"))
        EXPECT_NEAR(*parse_double(other), logged, 1e-6) << "on another rank";
    });
  }
}

TEST(DataParallel, FollowsParametersThatAreFrozenAndThawed) {
  run_ranks(2, [](World& world) {
    Scalars model({{"a", 1.0F}, {"b", 1.0F}, {"c", 1.0F}});
    model["a"].set_requires_grad(false);
    DataParallel ddp(model, world.all());
    const float mine = 1.0F + 2.0F * static_cast<float>(world.rank().value);
    for (int step = 1; step <= 8; ++step) {
      if (step == 3)
        model["b"].set_requires_grad(false);
      if (step == 5)
        model["a"].set_requires_grad(true);
      if (step == 7)
        model["b"].set_requires_grad(true);
      ((model["a"] + 2 * model["b"] + 3 * model["c"]) * mine).backward();
      EXPECT_EQ(model["a"].grad().defined(), step >= 5) << step;
      EXPECT_EQ(model["b"].grad().defined(), step < 3 || step >= 7) << step;
      if (step >= 5) {
        EXPECT_FLOAT_EQ(gradient(model, "a"), 2) << step;
      }
      if (step < 3 || step >= 7) {
        EXPECT_FLOAT_EQ(gradient(model, "b"), 4) << step;
      }
      EXPECT_FLOAT_EQ(gradient(model, "c"), 6) << step;
      ddp.zero_grad();
    }
  });
}

TEST(DataParallel, KeepsTiedParametersTied) {
  run_ranks(2, [](World& world) {
    Scalars model({{"a", 1.0F}, {"b", 5.0F}});
    model["b"].set_data(model["a"]);  // two parameters, one memory
    DataParallel ddp(model, world.all());
    ((model["a"] * 2 + model["b"] * 10) * (world.rank().value + 1)).backward();
    EXPECT_FLOAT_EQ(gradient(model, "a"), 3);
    EXPECT_FLOAT_EQ(gradient(model, "b"), 15);
    at::NoGradGuard no_grad;
    model["a"].fill_(9);
    EXPECT_FLOAT_EQ(model["b"].item<float>(), 9);
  });
}

}  // namespace
}  // namespace lockstep::test
