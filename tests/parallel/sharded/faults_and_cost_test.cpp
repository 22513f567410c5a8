// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <functional>
#include <stdlib.h>
#include <thread>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/sgd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/parallel/sharded/data_parallel.h"

#include "parallel/sharded/small_models.h"
#include "support/run_ranks.h"

namespace lockstep::test {
namespace {

/// The text of the error that `body` must throw.
template <typename Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

void expect_names(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_TRUE(contains(text, part)) << "'" << part << "' in: " << text;
  }
}

/// An update that leaves everything as it is.
struct Nothing final : ShardUpdate {
  UpdateUnit needs() const override { return UpdateUnit::Parameter; }
  void update(std::span<const UpdateSlice>, const UpdateStep&) override {}
};

/// A module with a buffer and no parameter.
struct Held : torch::nn::Module {
  Held() { register_buffer("scale", at::ones({2})); }
};

TEST(DataParallelFaults, NameAParameterThatWasReplacedAfterWrapping_DDP_04) {
  run_ranks(2, [](World& world) {
    const at::Tensor input = at::ones({1, 3}) * (world.rank().value + 1);
    {  // the member of a layer: the registry still holds the old tensor
      Layers model({"first", "layer"}, 3);
      DataParallel ddp(model, world.all());
      model.layer("layer")->weight = at::full({3, 3}, 0.5).requires_grad_();
      expect_names(error_of([&] { model.forward(input).sum().backward(); }),
                   {"layer.weight", "replaced"});
    }
    {  // a whole submodule, in the registry, after two good steps
      Layers model({"first", "layer"}, 3);
      DataParallel ddp(model, world.all());
      for (int step = 0; step < 2; ++step)
        model.forward(input).sum().backward();
      model.layer("first") = model.replace_module("first", torch::nn::Linear(3, 3));
      expect_names(error_of([&] { model.forward(input).sum().backward(); }),
                   {"first.", "replaced"});
    }
    {  // the only parameter: no hook is left to fire
      Layers model({"only"}, 3);
      model.layer("only") = model.replace_module(
          "only", torch::nn::Linear(torch::nn::LinearOptions(3, 3).bias(false)));
      DataParallel ddp(model, world.all());
      model.layer("only") = model.replace_module(
          "only", torch::nn::Linear(torch::nn::LinearOptions(3, 3).bias(false)));
      model.forward(input).sum().backward();
      Nothing nothing;
      for (const std::function<void()>& call :
           std::vector<std::function<void()>>{[&] { ddp.check_in_sync(); },
                                              [&] { ddp.sync_buffers(); },
                                              [&] { ddp.report(); },
                                              [&] { ddp.agree(Data::Here); },
                                              [&] { ddp.finish(); },
                                              [&] { ddp.update(nothing); }}) {
        expect_names(error_of(call), {"only.weight", "replaced"});
      }
    }
    {  // the only parameter, in the member: the registry knows nothing of it
      torch::nn::LinearImpl model(torch::nn::LinearOptions(3, 3).bias(false));
      DataParallel ddp(model, world.all());
      model.weight = at::full({3, 3}, 0.5).requires_grad_();
      model.forward(input).sum().backward();
      Nothing nothing;
      expect_names(error_of([&] { ddp.update(nothing); }), {"no backward reached a parameter"});
    }
    {  // a buffer
      NormNet model(3);
      DataParallel ddp(model, world.all());
      model.norm = model.replace_module("norm", torch::nn::BatchNorm1d(3));
      expect_names(error_of([&] { ddp.sync_buffers(); }), {"norm.weight", "replaced"});
      torch::nn::Module holder;
      holder.register_module("net", torch::nn::Linear(3, 3));
      holder.register_buffer("mean", at::zeros({3}));
      DataParallel held(holder, world.all());
      holder.register_module("late", std::make_shared<Held>());
      expect_names(error_of([&] { held.check_in_sync(); }), {"late.scale", "buffer", "added"});
    }
    {
      Layers model({"first"}, 3);
      DataParallel ddp(model, world.all());
      model.register_module("extra", torch::nn::Linear(2, 2));
      expect_names(error_of([&] { model.forward(input).sum().backward(); }), {"extra.", "added"});
    }
  });
}

TEST(DataParallelFaults, NameWhereModelsDifferOnEveryRankAlike_DDP_09) {
  for (const int size : {2, 3}) {
    run_ranks(size, [](World& world) {
      const bool last = world.rank().value + 1 == world.size();
      Scalars fewer(
          last ? std::vector<std::pair<std::string, float>>{{"a", 1.0F}, {"c", 1.0F}}
               : std::vector<std::pair<std::string, float>>{{"a", 1.0F}, {"b", 1.0F}, {"c", 1.0F}});
      expect_names(error_of([&] { DataParallel ddp(fewer, world.all()); }),
                   {"3", "2", "b", cat("rank ", world.size() - 1)});
      torch::nn::LinearImpl turned(last ? torch::nn::LinearOptions(4, 2)
                                        : torch::nn::LinearOptions(2, 4));
      expect_names(error_of([&] { DataParallel ddp(turned, world.all()); }),
                   {"weight", "[4, 2]", "[2, 4]"});
      torch::nn::LinearImpl typed(3, 3);
      if (last)
        typed.to(at::kDouble);
      expect_names(error_of([&] { DataParallel ddp(typed, world.all()); }),
                   {"weight", "f32", "f64"});
    });
  }
}

TEST(DataParallelFaults, NameTheParameterAndStepThatBreakAStaticGraph_DDP_15) {
  run_ranks(2, [](World& world) {
    Layers model({"A", "B", "C"}, 2);
    DataParallel ddp(model, world.all(), {.graph = GraphKind::Static});
    const auto step = [&](bool skip) {
      model.forward(at::ones({1, 2}), skip ? std::set<std::string>{"B"} : std::set<std::string>{})
          .sum()
          .backward();
      ddp.zero_grad();
    };
    for (int number = 1; number <= 4; ++number)
      step(false);
    if (world.rank().value == 1) {
      try {
        step(true);
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        expect_names(error.what(), {"B.", "step 5", "rank 1"});
        world.fail(error);
      }
    } else {
      EXPECT_THROW(step(false), Error) << "the other rank stops too";
      EXPECT_THROW(world.finish(), Error);
    }
  });
}

TEST(DataParallelFaults, AllowDifferentSetsOnRanksUnderAStaticGraphWhenConstant_DDP_15) {
  run_ranks(2, [](World& world) {
    Scalars model({{"a", 1.0F}, {"b", 1.0F}});
    DataParallel ddp(model, world.all(), {.graph = GraphKind::Static});
    for (int step = 0; step < 4; ++step) {
      (model[world.rank().value == 0 ? "a" : "b"] * 4).backward();
      EXPECT_FLOAT_EQ(gradient(model, "a"), 2) << step;
      EXPECT_FLOAT_EQ(gradient(model, "b"), 2) << step;
      ddp.zero_grad();
    }
  });
}

TEST(DataParallelFaults, NameAParameterThatIsFrozenOnOneRankOnly) {
  run_ranks(3, [](World& world) {
    Scalars model({{"a", 1.0F}, {"b", 1.0F}});
    DataParallel ddp(model, world.all());
    ((model["a"] + model["b"]) * 1).backward();
    if (world.rank().value == 1)
      model["b"].set_requires_grad(false);
    expect_names(error_of([&] { ((model["a"] + model["b"]) * 1).backward(); }),
                 {"b", "frozen on ranks 1", "trained on ranks 0, 2"});
  });
}

TEST(DataParallelFaults, NameTheRankThatLeftAPlainLoopEarlyAndAfterHowManySteps_DDP_08) {
  const WorldOptions options{.timeout = std::chrono::seconds(5)};
  run_ranks(2, options, [](World& world) {
    Scalars model({{"w", 1.0F}});
    DataParallel ddp(model, world.all());
    const auto step = [&] {
      (model["w"] * 6).backward();
      ddp.zero_grad();
    };
    for (int batch = 0; batch < 4; ++batch)
      step();
    if (world.rank().value == 0) {
      expect_names(error_of(step), {"rank 1", "finished 4 steps", "step 5"});
      EXPECT_THROW(world.finish(), Error);
    }
  });
}

TEST(DataParallelFaults, NameTheRankThatDidNotStep) {
  for (const int size : {2, 3}) {
    run_ranks(size, [](World& world) {
      Scalars model({{"a", 1.0F}, {"moved", 1.0F}});
      DataParallel ddp(model, world.all());
      ddp.check_in_sync();
      at::NoGradGuard no_grad;
      if (world.rank().value == world.size() - 1)
        model["moved"].add_(1e-7);
      expect_names(error_of([&] { ddp.check_in_sync(); }),
                   {"moved", cat("rank ", world.size() - 1)});
    });
  }
}

TEST(DataParallelFaults, RefuseCountsOnSomeRanksOrSomeMicroSteps) {
  run_ranks(2, [](World& world) {
    {
      Scalars model({{"w", 1.0F}});
      DataParallel ddp(model, world.all());
      expect_names(error_of([&] {
                     world.rank().value == 0 ? ddp.backward(model["w"] * 1, 3)
                                             : ddp.backward(model["w"] * 1);
                   }),
                   {"1 of 2 ranks"});
    }
    Scalars model({{"w", 1.0F}});
    DataParallel ddp(model, world.all());
    const NoSync local = ddp.no_sync();
    ddp.backward(model["w"] * 1, 3);
    expect_names(error_of([&] { (model["w"] * 1).backward(); }), {"with and without a count"});
  });
}

TEST(DataParallelFaults, CountNothingOfABackwardThatThrew) {
  run_ranks(3, [](World& world) {
    const float rank = static_cast<float>(world.rank().value);
    const Body throws = [](const at::Tensor& in) {
      if (at::GradMode::is_enabled())
        throw std::runtime_error("out of memory");
      return in * 1;
    };
    for (const bool synchronised : {true, false}) {
      Scalars model({{"w", 2.0F}, {"v", 1.0F}});
      DataParallel ddp(model, world.all());
      const at::Tensor input = at::ones({}).requires_grad_();
      {
        std::optional<NoSync> local;
        if (!synchronised)
          local.emplace(ddp.no_sync());
        const at::Tensor loss = recompute(throws, input * model["w"]) * model["v"];
        EXPECT_ANY_THROW(ddp.backward(loss, 100));
      }
      model.zero_grad();  // libtorch's, of which the engine is not told
      ddp.backward(model["w"] * (4 + rank), 2);
      EXPECT_FLOAT_EQ(gradient(model, "w"), 15.0F / 6) << synchronised;
      ddp.zero_grad();
      EXPECT_ANY_THROW(ddp.backward(recompute(throws, input * model["w"]) * model["v"], 100));
      model.zero_grad();
      (model["w"] * (4 + rank)).backward();  // without a count: another kind of step
      EXPECT_FLOAT_EQ(gradient(model, "w"), 5) << synchronised;
    }
  });
}

TEST(DataParallelFaults, LeaveTheEngineUsableAfterAnErrorInEveryRanksBackward) {
  run_ranks(2, [](World& world) {
    Scalars model({{"w", 2.0F}, {"v", 1.0F}});
    DataParallel ddp(model, world.all(), {.bucket_bytes = 1 << 20});
    const Body throws = [&](const at::Tensor& in) {
      if (at::GradMode::is_enabled())
        throw std::runtime_error("out of memory");
      return in * 1;
    };
    const at::Tensor input = at::ones({}).requires_grad_();
    EXPECT_ANY_THROW((recompute(throws, input * model["w"]) * model["v"]).backward());
    ddp.zero_grad();
    (model["w"] * (1 + 2 * world.rank().value)).backward();
    EXPECT_FLOAT_EQ(gradient(model, "w"), 2);
  });
}

TEST(DataParallelFaults, LeaveNothingOfABackwardThatThrewAfterBucketsHadLeft) {
  run_ranks(3, [](World& world) {
    at::manual_seed(3);
    Layers model({"A", "B", "C"}, 4), alone({"A", "B", "C"}, 4);
    copy_values(model, alone);
    DataParallel ddp(model, world.all(), {.bucket_bytes = 90});
    copy_values(model, alone);
    const auto input = [](int rank, int step) {
      return at::arange(8, at::kFloat).view({2, 4}) * (rank + 1) + step;
    };
    const Body throws = [](const at::Tensor& in) {
      if (at::GradMode::is_enabled())
        throw std::runtime_error("out of memory");
      return in * 1;
    };
    for (int step = 0; step < 4; ++step) {
      const at::Tensor mine = input(world.rank().value, step);
      if (step % 2 == 1) {
        const at::Tensor half = recompute(throws, model.layer("A")->forward(mine));
        const at::Tensor rest = model.layer("C")->forward(model.layer("B")->forward(half));
        EXPECT_ANY_THROW(rest.pow(2).sum().backward());
        EXPECT_FALSE(model.layer("A")->weight.grad().defined()) << "the step before's came back";
        ddp.zero_grad();
      }
      model.forward(mine).pow(2).sum().backward();
      alone.zero_grad();
      for (int rank = 0; rank < world.size(); ++rank)
        (alone.forward(input(rank, step)).pow(2).sum() / world.size()).backward();
      for (const auto& item : alone.named_parameters()) {
        const at::Tensor found = model.named_parameters()[item.key()].grad();
        ASSERT_TRUE(found.defined()) << item.key();
        EXPECT_TRUE(at::allclose(found, item.value().grad(), 1e-5, 1e-5))
            << item.key() << " step " << step;
      }
      ddp.zero_grad();
    }
  });
}

TEST(DataParallelCost, OfMarksIsTwoElementsAParameterAndNoCollective_DDP_14) {
  testing::internal::CaptureStderr();
  run_ranks(2, [](World& world) {
    std::int64_t bytes[2], calls[2];
    for (const GraphKind graph : {GraphKind::Dynamic, GraphKind::Static}) {
      Layers model({"A", "B", "C"}, 4);
      DataParallel ddp(model, world.all(), {.bucket_bytes = 200, .graph = graph});
      for (int step = 0; step < 200; ++step) {
        model.forward(at::ones({1, 4})).sum().backward();
        ddp.zero_grad();
      }
      const ReductionReport report = ddp.report();
      const auto at = static_cast<std::size_t>(graph == GraphKind::Static);
      bytes[at] = report.reduced_bytes_per_step;
      calls[at] = report.reductions_per_step;
      EXPECT_TRUE(report.unused.empty());
      EXPECT_GT(report.marks_ms_per_step, 0);
      EXPECT_LT(report.marks_ms_per_step, 20) << "on a busy machine";
    }
    EXPECT_EQ(calls[0], calls[1]);
    EXPECT_GT(bytes[0], bytes[1]);
    EXPECT_LE(bytes[0] - bytes[1], 2 * 6 * 4);
  });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "a warning";
}

/// Calls and bytes sent on this rank while `body` runs.
template <typename Body>
CommTotals traffic_of(World& world, const Body& body) {
  const CommTotals before = world.recorder().totals();
  body();
  CommTotals after = world.recorder().totals();
  after.calls -= before.calls;
  after.sent_bytes -= before.sent_bytes;
  return after;
}

TEST(DataParallelCost, IsTwoPassesOfTheGradientsOnceAStep_PRF_02) {
  for (const int size : {2, 3}) {
    run_ranks(size, [](World& world) {
      Layers model(std::vector<std::string>{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"},
                   150);  // 906 kB
      DataParallel ddp(model, world.all(), {.bucket_bytes = 250'000});
      for (const int accumulation : {1, 4}) {
        const CommTotals traffic = traffic_of(world, [&] {
          for (int micro = 0; micro < accumulation; ++micro) {
            std::optional<NoSync> local;
            if (micro + 1 < accumulation)
              local.emplace(ddp.no_sync());
            model.forward(at::ones({1, 150})).sum().backward();
          }
        });
        EXPECT_GE(traffic.calls, 4) << accumulation;
        EXPECT_LE(traffic.calls, 5) << accumulation;
        const double payload = static_cast<double>(ddp.report().reduced_bytes_per_step);
        EXPECT_NEAR(payload, 906'000, 10'000);
        const double sent = 2.0 * (world.size() - 1) / world.size() * payload;
        EXPECT_NEAR(static_cast<double>(traffic.sent_bytes), sent, 0.01 * sent) << accumulation;
      }
    });
  }
}

TEST(DataParallelCost, HoldsNoSecondCopyOfTheGradients_MEM_06) {
  run_ranks(2, [](World& world) {
    Layers model({"a", "b", "c"}, 40);
    DataParallel ddp(model, world.all());
    std::optional<at::Storage> storage;
    for (int step = 0; step < 3; ++step) {
      model.forward(at::ones({1, 40})).sum().backward();
      for (const at::Tensor& parameter : model.parameters()) {
        if (!storage)
          storage = parameter.grad().storage();
        EXPECT_TRUE(parameter.grad().is_alias_of(model.parameters()[0].grad()))
            << "one flat buffer";
        EXPECT_EQ(parameter.grad().storage().data(), storage->data()) << "the same in every step";
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parameter.grad().data_ptr()) % 64, 0U);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(parameter.data_ptr()) % 64, 0U);
      }
      step == 1 ? ddp.zero_grad() : model.zero_grad(step == 0);
    }
    const auto gradient_bytes = static_cast<double>(3 * (40 * 40 + 40) * 4);
    EXPECT_LE(static_cast<double>(storage->nbytes()), gradient_bytes + 6 * 64 + 256);
  });
}

/// y = x * w, whose backward takes `milliseconds` before it gives w's gradient; notes when the first layer's is there.
struct Slow : torch::autograd::Function<Slow> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x,
                            const at::Tensor& w,
                            std::int64_t milliseconds) {
    context->save_for_backward({x, w});
    context->saved_data["ms"] = milliseconds;
    return x * w;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    std::this_thread::sleep_for(std::chrono::milliseconds(context->saved_data["ms"].toInt()));
    const auto saved = context->get_saved_variables();
    return {gradients[0] * saved[1], gradients[0] * saved[0], at::Tensor()};
  }
};

double backward_ms(World& world,
                   int layers,
                   std::int64_t& reductions,
                   bool& started_before_the_end) {
  std::vector<std::pair<std::string, float>> names;
  for (int layer = 0; layer < layers; ++layer)
    names.emplace_back(cat("w", layer), 1.0F);
  Scalars model(names);
  DataParallel ddp(model, world.all(), {.bucket_bytes = 1});
  double best = 1e9;
  for (int step = 0; step < 2; ++step) {
    at::Tensor x = at::ones({});
    for (const auto& [name, value] : names)
      x = Slow::apply(x, model[name], 45);
    const auto start = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point last_gradient;
    const auto hook = model["w0"].register_hook([&](const at::Tensor& gradient) {
      last_gradient = std::chrono::steady_clock::now();
      return gradient;
    });
    x.backward();
    best =
        std::min(best,
                 std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                     .count());
    const auto records = world.recorder().records_since(start);
    reductions = static_cast<std::int64_t>(records.size());
    started_before_the_end = !records.empty() && records.front().started < last_gradient;
    model["w0"].remove_hook(hook);
    ddp.zero_grad();
  }
  return best;
}

TEST(DataParallelCost, HidesReductionsBehindBackward) {
  static constexpr int kLayers = 8;
  double plain = 0, delayed = 0;
  const auto measure = [](double& milliseconds) {
    run_ranks(2, [&](World& world) {
      std::int64_t reductions = 0;
      bool early = false;
      const double took = backward_ms(world, kLayers, reductions, early);
      EXPECT_EQ(reductions, kLayers);
      EXPECT_TRUE(early) << "the first reduction starts before the last gradient is there";
      if (world.rank().value == 0)
        milliseconds = took;
    });
  };
  measure(plain);
  setenv("LOCKSTEP_DEBUG_COMM_DELAY_MS", "30", 1);
  measure(delayed);
  unsetenv("LOCKSTEP_DEBUG_COMM_DELAY_MS");
  EXPECT_GT(delayed, plain + 15) << "the last one cannot hide";
  EXPECT_LT(delayed - plain, kLayers * 30 / 2);
}

}  // namespace
}  // namespace lockstep::test
