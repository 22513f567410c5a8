// SPDX-License-Identifier: Apache-2.0
#include "lockstep/config/resolve.h"

#include <array>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/config/load.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

Config with(std::string_view text) { return parse_config(text, "run.toml"); }

std::string complaint(const Config& config, std::int64_t world_size) {
  try {
    resolve(config, world_size);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Config);
    return error.what();
  }
  return "none";
}

TEST(Batch, AnyTwoOfThreeGiveTheThird) {
  for (const std::int64_t ranks : {1, 2, 3, 4, 7}) {
    for (const std::int64_t micro : {1, 2, 5}) {
      for (const std::int64_t accumulation : {1, 3, 4}) {
        const BatchSizes all{micro, accumulation, micro * accumulation * ranks};
        for (int left_out = 0; left_out < 4; ++left_out) {
          Config config;
          if (left_out != 0)
            config.batch.micro = all.micro;
          if (left_out != 1)
            config.batch.accumulation = all.accumulation;
          if (left_out != 2)
            config.batch.global = all.global;
          EXPECT_EQ(resolve(config, ranks).batch, all) << ranks << " ranks, without " << left_out;
        }
      }
    }
  }
}

TEST(Batch, OneAloneMeansNoAccumulation) {
  EXPECT_EQ(resolve(with("[batch]\nmicro = 5\n"), 3).batch, (BatchSizes{5, 1, 15}));
  EXPECT_EQ(resolve(with("[batch]\nglobal = 24\n"), 3).batch, (BatchSizes{8, 1, 24}));
}

TEST(Batch, ThreeThatDisagreeAreAnErrorWithAllFourNumbers) {
  const std::string text =
      complaint(with("[batch]\nmicro = 2\naccumulation = 3\nglobal = 20\n"), 4);
  EXPECT_THAT(
      text, HasSubstr("micro 2 x accumulation 3 x the data-parallel size 4 is 24, not global 20"));
}

TEST(Batch, WhatDoesNotDivideIsNamedWithTheNextThatDoes) {
  EXPECT_THAT(complaint(with("[batch]\nglobal = 24\n"), 5),
              HasSubstr("24 sequences does not divide by the data-parallel size 5 = 5. Set it to a "
                        "multiple of 5, such as 20 or 25"));
  EXPECT_THAT(complaint(with("[batch]\nglobal = 2\n"), 4), HasSubstr("such as 4"));
  EXPECT_THAT(complaint(with("[batch]\nglobal = 24\nmicro = 5\n"), 2),
              HasSubstr("micro 5 x the data-parallel size 2 = 10"));
  EXPECT_THAT(complaint(with("[batch]\nglobal = 24\naccumulation = 7\n"), 1),
              HasSubstr("accumulation 7"));
}

TEST(Batch, NothingToGoByIsAnError) {
  EXPECT_THAT(complaint({}, 2), HasSubstr("no batch size is given"));
  EXPECT_THAT(complaint(with("[batch]\naccumulation = 2\n"), 2), HasSubstr("accumulation alone"));
}

TEST(Parallel, TheDataAxisTakesTheRest) {
  EXPECT_EQ(resolve(with("[batch]\nmicro = 1\n"), 6).parallel, (ParallelSizes{.dp_replicate = 6}));
  EXPECT_EQ(resolve(with("[batch]\nmicro = 1\n[parallel]\ndp_replicate = \"rest\"\n"), 3)
                .parallel.dp_replicate,
            3);
  EXPECT_EQ(
      resolve(with("[batch]\nmicro = 1\n[parallel]\ndp_replicate = 4\n"), 4).parallel.dp_replicate,
      4);
}

TEST(Parallel, AxesThatDoNotMakeTheWorldAreShown) {
  EXPECT_THAT(
      complaint(with("[batch]\nmicro = 1\n[parallel]\ndp_replicate = 4\n"), 6),
      HasSubstr("pp 1 x dp_replicate 4 x dp_shard 1 x cp 1 x tp 1 = 4 ranks, but there are 6"));
  EXPECT_THAT(complaint(with("[batch]\nmicro = 1\n[parallel]\ntp = 4\n"), 6),
              HasSubstr("Start 4 ranks or a multiple of it"));
  EXPECT_THAT(complaint(with("[parallel]\ntp = \"rest\"\npp = \"rest\"\n"), 6),
              HasSubstr("parallel.pp, parallel.tp: only one axis"));
  EXPECT_THAT(complaint(with("[batch]\nmicro = 1\n[parallel]\ndp_shard = 2\n"), 4),
              HasSubstr("zero = 0 shards nothing"));
}

TEST(Precision, TypesFollowCompute) {
  EXPECT_EQ(resolve(with("[batch]\nmicro = 1\n"), 1).precision,
            (PrecisionPolicy{"fp32", "fp32", "fp32", "none"}));
  EXPECT_EQ(resolve(with("[batch]\nmicro = 1\n[precision]\ncompute = \"fp64\"\n"), 1).precision,
            (PrecisionPolicy{"fp64", "fp64", "fp64", "none"}));
}

TEST(Resolve, PrintsAsWhatRunsAndChangesNothingTheSecondTime) {
  const Resolved once = resolve(with("[batch]\nglobal = 24\naccumulation = 3\n"), 4);
  const Resolved twice = resolve(parse_config(print_config(once.config), "printed"), 4);
  EXPECT_EQ(once.config, twice.config);
  EXPECT_THAT(print_config(once.config), HasSubstr("micro = 2\n"));
  EXPECT_THAT(print_config(once.config), HasSubstr("dp_replicate = 4\n"));
  EXPECT_THAT(print_config(once.config), HasSubstr("pp = 1  # fixed in this version\n"));
}

TEST(Resolve, FindingsOfAllPartsComeTogether) {
  const std::string text =
      complaint(with("[model]\npreset = \"tiny\"\nfile = \"a.json\"\n[batch]\nglobal = "
                     "3\n[lr_schedule]\nmin_lr = 1\nwarmup = 9\n[train]\nsteps = 5\n"),
                2);
  EXPECT_THAT(text, HasSubstr("4 settings cannot work"));
  EXPECT_THAT(text, HasSubstr("model.preset, model.file"));
  EXPECT_THAT(text, HasSubstr("does not divide"));
  EXPECT_THAT(text, HasSubstr("1 is above optimizer.lr 0.001"));
  EXPECT_THAT(text, HasSubstr("9 steps of warm-up in a run of 5"));
}

TEST(Resolve, WhatOnlyThePartsWouldRefuseIsFoundBefore) {
  const std::string batch = "[batch]\nmicro = 1\n";
  EXPECT_THAT(complaint(with(cat(batch, "[optimizer]\neps = 0\n")), 1), HasSubstr("optimizer.eps"));
}

TEST(Resolve, WhatNeedsValidationDataIsRefusedWithoutIt) {
  const std::string batch = "[batch]\nmicro = 1\n";
  const std::string valid = "[data]\nvalid = \"v.tokens\"\n";
  for (const auto& [key, text] :
       {std::pair("train.eval_every", "[train]\neval_every = 3\n"),
        std::pair("checkpoint.keep_best", "[checkpoint]\nkeep_best = true\n")}) {
    EXPECT_THAT(complaint(with(cat(batch, text)), 1),
                HasSubstr(cat(key, ": there is no validation data to evaluate on")));
    EXPECT_EQ(complaint(with(cat(batch, valid, text)), 1), "none");
  }
}

TEST(Resolve, ThePageMarksWhatIsRefused) {
  EXPECT_EQ(unsupported_text("parallel", "pp"), "not in this version");
  EXPECT_EQ(unsupported_text("precision", "compute"), "not in this version: bf16, fp16");
  EXPECT_EQ(unsupported_text("optimizer", "lr"), "");
  for (const char* row : {"`pp`", "`recompute`", "`async`", "`reproducible`", "`init_from`"}) {
    const std::string page = config_reference();
    const std::size_t at = page.find(cat("| ", row));
    ASSERT_NE(at, std::string::npos) << row;
    EXPECT_THAT(page.substr(at, page.find('\n', at) - at), HasSubstr("**not in this version**"));
  }
}

TEST(Resolve, WhatThisVersionLacksIsRefusedByName) {
  const std::vector<std::array<std::string, 2>> cases = {
      {"[parallel]\nzero = 2\n", "parallel.zero"},
      {"[parallel]\ntp = 2\n", "parallel.tp"},
      {"[parallel]\npp = 2\n", "parallel.pp"},
      {"[parallel]\ncp = 2\n", "parallel.cp"},
      {"[offload]\noptimizer = \"host\"\n", "offload.optimizer"},
      {"[comm]\nprefetch = 3\n", "comm.prefetch"},
      {"[comm]\nuneven = \"join\"\n", "comm.uneven"},
      {"[comm]\nuneven = \"stop\"\n", "comm.uneven"},
      {"[precision]\ncompute = \"bf16\"\n", "precision.compute"},
      {"[train]\nreproducible = true\n", "train.reproducible"}};
  for (const auto& [text, key] : cases) {
    EXPECT_THAT(complaint(with(cat("[batch]\nmicro = 1\n", text)), 2), HasSubstr(cat(key, ": '")))
        << text;
    EXPECT_THAT(complaint(with(cat("[batch]\nmicro = 1\n", text)), 2),
                HasSubstr("is not in this version"))
        << text;
  }
  EXPECT_EQ(complaint(with("[batch]\nmicro = 1\n"), 2), "none");
}

}  // namespace
}  // namespace lockstep
