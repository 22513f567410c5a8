// SPDX-License-Identifier: Apache-2.0
#include "lockstep/model/model_spec.h"

#include <cmath>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/model/architectures.h"
#include "lockstep/model/model_values.h"
#include "lockstep/model/operators.h"
#include "lockstep/model/presets.h"

#include "support/complaint.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Presets, AllCanBeBuiltAndHaveUniqueNamesAndHelp) {
  std::set<std::string_view> names;
  for (const Preset& row : presets()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_GT(row.help.size(), 10U) << row.name;
    const ModelSpec spec = make_model({.preset = std::string(row.name)});
    EXPECT_GT(spec.parameter_elements(), 1000) << row.name;
    std::set<std::string> parameters;
    for (const ParameterSpec& parameter : spec.parameters) {
      EXPECT_TRUE(parameters.insert(parameter.name).second) << parameter.name;
    }
  }
}

TEST(Presets, TellTheNearestNameOfAMistypedOne) {
  EXPECT_THAT(test::complaint(Fault::Config, [] { make_model({.preset = "tinny"}); }),
              AllOf(HasSubstr("did you mean 'tiny'"), HasSubstr("gpt2-small")));
}

// 2 * 256 * 96 (token, head) + 96 * 96 (position) + 4 blocks + 2 * 96, a block: 96 * 288 + 288 + 96
// * 96 + 96 + 8 * 96 * 96 + 480 + 4 * 96.
TEST(ModelSpec, TinyHasTheCountMadeByHand) {
  EXPECT_EQ(make_model({.preset = "tiny"}).parameter_elements(), 49152 + 9216 + 4 * 111840 + 192);
}

TEST(ModelSpec, Gpt2SmallHasThePublishedCount) {
  const ModelSpec spec = make_model({.preset = "gpt2-small"});
  EXPECT_EQ(spec.parameter_elements(), 124439808);
  ASSERT_EQ(spec.aliases.size(), 1U);
  EXPECT_EQ(&spec.parameter("head.weight"), &spec.parameter("embedding.token.weight"));
}

TEST(ModelSpec, SegmentsOfAFusedParameterAreItsRows) {
  const ModelSpec spec = make_model({.preset = "tiny", .heads = 8, .kv_heads = 2});
  for (const ParameterSpec& parameter : spec.parameters) {
    std::int64_t rows = 0;
    for (const Segment& segment : parameter.segments) {
      rows += segment.rows;
    }
    EXPECT_TRUE(parameter.segments.empty() || rows == parameter.shape[0]) << parameter.name;
  }
  const auto& segments = spec.parameter("layers.1.attention.qkv.weight").segments;
  ASSERT_EQ(segments.size(), 3U);
  EXPECT_EQ(segments[0].rows, 96);
  EXPECT_EQ(segments[1].rows, 24);
  EXPECT_EQ(segments[2].name, "v");
}

TEST(ModelSpec, EveryParameterBelongsToOneUnit) {
  for (const Preset& row : presets()) {
    const ModelSpec spec = make_model({.preset = std::string(row.name)});
    for (const ParameterSpec& parameter : spec.parameters) {
      int owners = 0;
      for (const std::string& unit : spec.units) {
        owners += parameter.name.starts_with(unit + ".") ? 1 : 0;
      }
      EXPECT_EQ(owners, 1) << parameter.name;
    }
  }
}

TEST(ModelSpec, NamesTheNearestParameterOfAnUnknownOne) {
  const ModelSpec spec = make_model({.preset = "tiny"});
  EXPECT_THAT(test::complaint(Fault::Usage, [&] { spec.parameter("layers.0.mlp.fc3.weight"); }),
              HasSubstr("layers.0.mlp.fc"));
}

TEST(Init, XavierUsesTheLogicalMatrix) {
  EXPECT_NEAR(Init::xavier_normal(1024, 32).scale, std::sqrt(2.0 / 1056.0), 1e-15);
}

TEST(ModelValues, WidthAndHeadsCarryTheirDependents) {
  const GptConfig wide = make_model({.preset = "tiny", .width = 192, .heads = 6}).gpt();
  EXPECT_EQ(wide.ffn_width, 768);
  EXPECT_EQ(wide.kv_heads, 6);
  EXPECT_EQ(make_model({.preset = "tiny", .width = 192, .ffn_width = 100}).gpt().ffn_width, 100);
}

TEST(ModelValues, TellEveryFaultAtOnceWithWhatWouldWork) {
  const std::string text = test::complaint(Fault::Config, [] {
    make_model({.preset = "tiny",
                .layers = 0,
                .width = 40,
                .heads = 3,
                .ffn_width = 0,
                .vocab = -2,
                .dropout = 1.0});
  });
  EXPECT_THAT(text,
              AllOf(HasSubstr("model.layers"),
                    HasSubstr("width 40 does not divide into 3 heads"),
                    HasSubstr("1, 2, 4, 5, 8, 10, 20, 40"),
                    HasSubstr("model.ffn_width"),
                    HasSubstr("model.vocab"),
                    HasSubstr("model.dropout")));
}

TEST(ModelValues, KeyValueHeadsThatDoNotShareEvenlyNameThoseThatDo) {
  EXPECT_THAT(test::complaint(Fault::Config,
                              [] { make_model({.preset = "tiny", .heads = 8, .kv_heads = 3}); }),
              AllOf(HasSubstr("8 heads cannot share 3"), HasSubstr("1, 2, 4, 8")));
}

TEST(ModelValues, NeedExactlyOneSource) {
  EXPECT_THAT(test::complaint(Fault::Config, [] { make_model({}); }), HasSubstr("neither"));
  EXPECT_THAT(
      test::complaint(Fault::Config, [] { make_model({.preset = "tiny", .file = "config.json"}); }),
      HasSubstr("both"));
}

TEST(ModelValues, AnMlpRefusesWhatOnlyAGptHas) {
  EXPECT_THAT(test::complaint(Fault::Config,
                              [] { make_model({.preset = "mlp", .heads = 2, .dropout = 0.1}); }),
              AllOf(HasSubstr("model.heads"), HasSubstr("model.dropout")));
  EXPECT_EQ(make_model({.preset = "mlp", .layers = 2, .width = 30}).parameters.back().shape,
            std::vector<std::int64_t>{10});
}

// By hand, 2 samples of 96 tokens: a token of a layer costs 2 * (96 * 288 + 96 * 96 + 2 * 96 * 384)
// in its four linears and 4 * 96 * 96 in attention; the head 2 * 96 * 256.
TEST(Operators, TinyHasTheOperationsCountedByHand) {
  const auto operators = operators_of(make_model({.preset = "tiny"}), {.samples = 2, .tokens = 96});
  const double token = 4.0 * (2.0 * (27648 + 9216 + 73728) + 4.0 * 96 * 96) + 2.0 * 96 * 256;
  EXPECT_EQ(forward_flops(operators), 192 * token);
  EXPECT_EQ(step_flops(operators), 3 * 192 * token);
  EXPECT_EQ(operators.size(), 1U + 4 * 10 + 2);
}

TEST(Operators, ShapesFollowTheWorkload) {
  const auto operators = operators_of(make_model({.preset = "tiny", .heads = 12, .kv_heads = 4}),
                                      {.samples = 3, .tokens = 50});
  EXPECT_EQ(operators[2].name, "layers.0.attention.qkv");
  EXPECT_THAT(operators[2].output, ElementsAre(3, 50, 96 + 2 * 32));
  EXPECT_EQ(operators[2].forward_flops, 2.0 * 150 * 96 * 160);
}

TEST(Operators, AnMlpHasItsLinears) {
  const auto operators = operators_of(make_model({.preset = "mlp"}), {.samples = 5});
  EXPECT_EQ(forward_flops(operators), 2.0 * 5 * (784 * 128 + 128 * 128 + 128 * 10));
}

}  // namespace
}  // namespace lockstep
