// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/stepper.h"

#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/config/load.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/pure/token_file.h"
#include "lockstep/strategy/pure/plan_run.h"

#include "support/process.h"
#include "support/run_ranks.h"

namespace lockstep::train {
namespace {

using test::run_ranks;
using testing::HasSubstr;

constexpr std::int64_t kSequence = 7;
constexpr std::int64_t kSamples = 30;

/// A file of 30 sequences of 7 tokens.
class StepperOverRanks : public testing::Test {
 protected:
  StepperOverRanks() {
    std::vector<std::byte> tokens(kSequence * kSamples + 1);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::byte>((i * i * 7 + i * 3) % 29);
    TokenWriter writer(path(), {.vocab = 29, .tokenizer = "byte"}, tokens.size());
    writer.append(tokens);
    writer.commit();
  }

  std::string path() const { return (folder_ / "tokens").string(); }

  Resolved resolved(int ranks, const std::string& more = "") const {
    return resolve(
        parse_config(cat("[model]\npreset = \"tiny\"\nlayers = 1\nwidth = 12\nheads = 2\nvocab = "
                         "29\ncontext = 7\n[batch]\nglobal = 12\naccumulation = 2\n[precision]\n"
                         "compute = \"fp64\"\n[train]\nsteps = 4\nepochs = 1\n[data]\ntrain = \"",
                         path(),
                         "\"\n",
                         more),
                     "run.toml"),
        ranks);
  }

  /// What a rank needs for its steps.
  struct Rank {
    Rank(World& world, const Resolved& run)
        : data(std::make_shared<const TokenSequences>(run.config.data.train, kSequence)),
          loader(token_dataset(data),
                 DistributedSampler(strategy::train_sampling(run.config, data->size()),
                                    strategy::dealing_of(run, world.rank().value))),
          assembly(strategy::assemble(run, strategy::model_of(run.config), world, nullptr)),
          stepper({.world = world,
                   .assembly = assembly,
                   .loader = loader,
                   .schedule = strategy::horizon_of(run, std::nullopt, std::nullopt).schedule,
                   .seed = 5,
                   .trace = trace}) {}
    Trace trace;
    std::shared_ptr<const TokenSequences> data;  // shared with the loader's threads
    DataLoader loader;
    strategy::Assembly assembly;
    Stepper stepper;
  };

  static std::vector<at::Tensor> copies(Rank& rank) {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : rank.assembly.model->parameters())
      all.push_back(parameter.detach().clone());
    return all;
  }

  test::TemporaryFolder folder_;
};

TEST_F(StepperOverRanks, StepsAreTheSameForAnyNumberOfRanks) {
  std::vector<StepMetrics> alone;
  for (const int ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](World& world) {
      Rank rank(world, resolved(ranks));
      for (std::int64_t step = 1; step <= 2; ++step) {
        const auto outcome = rank.stepper.run(step, Wish::GoOn);
        ASSERT_TRUE(outcome.has_value());
        const StepMetrics& m = outcome->metrics;
        EXPECT_EQ(m.step, step);
        EXPECT_EQ(m.step_tokens, 12 * kSequence);
        EXPECT_EQ(m.sent_bytes.size(), static_cast<std::size_t>(ranks));
        EXPECT_EQ(m.sent_bytes[0] > 0, ranks > 1);
        EXPECT_EQ(24 * outcome->after.epoch + outcome->after.consumed, 12 * step);
        EXPECT_EQ(outcome->agreed, Wish::GoOn);
        if (ranks == 1)
          alone.push_back(m);
        const StepMetrics& expected = alone[static_cast<std::size_t>(step - 1)];
        EXPECT_NEAR(m.loss, expected.loss, 1e-9 * expected.loss)
            << ranks << " ranks, step " << step;
        EXPECT_NEAR(m.grad_norm, expected.grad_norm, 1e-9 * expected.grad_norm);
        EXPECT_EQ(m.lr, expected.lr);
      }
    });
  }
  ASSERT_EQ(alone.size(), 2U);
  EXPECT_LT(alone[1].loss, alone[0].loss + 1);
  EXPECT_NE(alone[1].loss, alone[0].loss);
}

TEST_F(StepperOverRanks, AWishOfOneRankIsAgreedOnAndTheDataEndsForAllAtOnce) {
  run_ranks(3, [&](World& world) {
    Rank rank(world, resolved(3));
    const bool asks = world.rank().value == 1;
    EXPECT_EQ(rank.stepper.run(1, Wish::GoOn)->agreed, Wish::GoOn);
    EXPECT_EQ(rank.stepper.run(2, asks ? Wish::StopAfterStep : Wish::GoOn)->agreed,
              Wish::StopAfterStep);
    EXPECT_FALSE(rank.stepper.run(3, Wish::GoOn).has_value()) << "30 samples are 2 steps of 12";
  });
}

TEST_F(StepperOverRanks, ALossThatIsNotFiniteOnOneRankStopsAllBeforeTheUpdate) {
  run_ranks(3, [&](World& world) {
    Rank rank(world, resolved(3));
    ASSERT_TRUE(rank.stepper.run(1, Wish::GoOn).has_value());
    if (world.rank().value == 2) {
      const at::NoGradGuard no_gradients;
      rank.assembly.model->parameters()[0].fill_(std::numeric_limits<double>::quiet_NaN());
    }
    const auto before = copies(rank);
    try {
      rank.stepper.run(2, Wish::GoOn);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Numeric);
      EXPECT_THAT(error.what(), HasSubstr("step 2: the loss of rank 2 is not finite"));
    }
    const auto after = copies(rank);
    for (std::size_t i = world.rank().value == 2 ? 1 : 0; i < before.size(); ++i)
      EXPECT_TRUE(at::equal(before[i], after[i])) << "parameter " << i;
  });
}

TEST_F(StepperOverRanks, EvaluationCountsEachSampleOnce_SMP_01) {
  double alone = 0;
  for (const int ranks : {1, 2, 3}) {
    for (const std::int64_t micro : {4, 7}) {  // neither divides 30 samples over the ranks
      run_ranks(ranks, [&](World& world) {
        Rank rank(world, resolved(ranks));
        const double loss = evaluate(world, rank.assembly, rank.data, micro);
        if (ranks == 1 && micro == 4)
          alone = loss;
        EXPECT_NEAR(loss, alone, 1e-12 * alone) << ranks << " ranks, micro " << micro;
      });
    }
  }
}

}  // namespace
}  // namespace lockstep::train
