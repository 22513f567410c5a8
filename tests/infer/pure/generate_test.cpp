// SPDX-License-Identifier: Apache-2.0
#include "lockstep/infer/pure/generate.h"

#include <cmath>
#include <limits>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::infer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::map<std::int64_t, int> draw(std::span<const float> logits,
                                 const SamplingOptions& options,
                                 int count) {
  std::map<std::int64_t, int> seen;
  for (int place = 0; place < count; ++place) {
    ++seen[sample(logits, options, static_cast<std::uint64_t>(place))];
  }
  return seen;
}

const std::vector<float> kLogits{std::log(0.1F), std::log(0.5F), std::log(0.15F), std::log(0.25F)};

TEST(Sample, FollowsTheDistribution) {
  const auto seen = draw(kLogits, {.seed = 4}, 40000);
  EXPECT_NEAR(seen.at(0), 4000, 300);
  EXPECT_NEAR(seen.at(1), 20000, 500);
  EXPECT_NEAR(seen.at(2), 6000, 350);
  EXPECT_NEAR(seen.at(3), 10000, 450);
}

TEST(Sample, TopPKeepsTheLikeliestThatReachIt) {
  EXPECT_EQ(draw(kLogits, {.top_p = 0.5}, 1000).size(), 1U);  // 0.5 reaches it alone
  const auto two = draw(kLogits, {.top_p = 0.6}, 30000);      // 0.5 and 0.25, in the ratio 2 : 1
  ASSERT_EQ(two.size(), 2U);
  EXPECT_NEAR(two.at(1), 20000, 500);
  EXPECT_NEAR(two.at(3), 10000, 500);
  EXPECT_EQ(draw(kLogits, {.top_p = 0.8}, 5000).size(), 3U);
  EXPECT_EQ(draw(kLogits, {.top_p = 1e-9}, 100).size(), 1U);  // at least one
}

TEST(Sample, TemperatureZeroTakesTheLikeliestAndLowOnesNearlyDo) {
  EXPECT_EQ(draw(kLogits, {.temperature = 0.0}, 50), (std::map<std::int64_t, int>{{1, 50}}));
  EXPECT_EQ(sample(std::vector<float>{1, 3, 3}, {.temperature = 0.0}, 0), 1);
  EXPECT_GT(draw(kLogits, {.temperature = 0.2}, 10000).at(1), 9500);
  EXPECT_NEAR(draw(kLogits, {.temperature = 1000.0}, 40000).at(0), 10000, 500);
}

TEST(Sample, RefusesLogitsThatAreNotFinite) {
  const std::vector<float> bad{1.0F, std::numeric_limits<float>::quiet_NaN()};
  try {
    sample(bad, {.temperature = 0.0}, 0);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Numeric);
    EXPECT_THAT(error.what(), HasSubstr("token 1"));
  }
}

/// Prefers the token after the last one, modulo 7, and records what it was asked.
struct Counting {
  std::vector<std::vector<std::int64_t>> windows;
  std::vector<std::size_t> fresh;
  std::vector<float> operator()(std::span<const std::int64_t> window, std::size_t count) {
    windows.emplace_back(window.begin(), window.end());
    fresh.push_back(count);
    std::vector<float> logits(7, 0.0F);
    logits[static_cast<std::size_t>((window.back() + 1) % 7)] = 1.0F;
    return logits;
  }
};

TEST(Generate, GoesOnFromThePromptAndMovesAFullWindow) {
  Counting model;
  std::vector<std::int64_t> streamed;
  const std::vector<std::int64_t> prompt{3, 4};
  const auto made = generate(prompt,
                             std::ref(model),
                             {.max_new_tokens = 6,
                              .context = 4,
                              .sampling = {.temperature = 0.0},
                              .on_token = [&](std::int64_t token) { streamed.push_back(token); }});
  EXPECT_THAT(made, ElementsAre(5, 6, 0, 1, 2, 3));
  EXPECT_EQ(streamed, made);
  EXPECT_THAT(model.fresh,
              ElementsAre(2, 1, 1, 2, 1, 1));  // the fourth window is new: the last half context
  EXPECT_THAT(model.windows[3], ElementsAre(6, 0));
  for (const auto& window : model.windows) {
    EXPECT_LE(window.size(), 4U);
  }
}

TEST(Generate, UsesTheEndOfALongPromptAndAContextOfOne) {
  Counting model;
  const std::vector<std::int64_t> prompt{1, 2, 3, 4, 5};
  EXPECT_THAT(generate(prompt,
                       std::ref(model),
                       {.max_new_tokens = 3, .context = 1, .sampling = {.temperature = 0.0}}),
              ElementsAre(6, 0, 1));
  EXPECT_THAT(model.windows[0], ElementsAre(5));
}

TEST(Generate, GivesTheSameTextForTheSameSeed) {
  const NextLogits flat = [](auto, auto) { return std::vector<float>(50, 0.0F); };
  const std::vector<std::int64_t> prompt{1};
  const auto text = [&](std::uint64_t seed) {
    return generate(prompt, flat, {.max_new_tokens = 30, .context = 8, .sampling = {.seed = seed}});
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Generate, TellsEveryOptionOutOfRange) {
  const std::vector<std::int64_t> prompt{1};
  try {
    generate(prompt,
             Counting{},
             {.max_new_tokens = -1, .context = 4, .sampling = {.temperature = -1.0, .top_p = 0.0}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        AllOf(HasSubstr("--temperature"), HasSubstr("--top-p"), HasSubstr("--max-new-tokens")));
  }
  EXPECT_THROW(generate({}, Counting{}, {.context = 4}), Error);
}

TEST(PrintableUtf8, KeepsWhatIsTextAndMarksTheRest) {
  EXPECT_EQ(printable_utf8("h\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "h\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(printable_utf8("a\xC3"), "a\xEF\xBF\xBD");
  EXPECT_EQ(printable_utf8("\xFFz\x80"), "\xEF\xBF\xBDz\xEF\xBF\xBD");
  EXPECT_EQ(printable_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
}

}  // namespace
}  // namespace lockstep::infer
