// SPDX-License-Identifier: Apache-2.0
#include "lockstep/region/trace.h"

#include <thread>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace lockstep {
namespace {

struct Kept : SpanSink {
  std::vector<Span> spans;
  void add(const Span& span) override { spans.push_back(span); }
};

at::Tensor leaf() { return at::ones({3}).set_requires_grad(true); }

/// Doubles its input; slow in forward when asked.
Tensors twice(const Tensors& in) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return {in[0] * 2};
}

TEST(TraceRegion, TimesForwardAndBackwardOfEachRegionByName) {
  const auto sink = std::make_shared<Kept>();
  TraceRegion region(std::make_shared<Region>(), sink);
  const at::Tensor x = leaf();
  at::Tensor y = region.run("first", {x}, twice)[0];
  y = region.run("second", {y}, twice)[0];
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full({3}, 4.0)));

  ASSERT_EQ(sink->spans.size(), 4U);
  EXPECT_EQ(sink->spans[0].name, "first");
  EXPECT_EQ(sink->spans[1].name, "second");
  EXPECT_EQ(sink->spans[2].name, "second");
  EXPECT_EQ(sink->spans[3].name, "first");
  for (const Span& span : sink->spans) {
    EXPECT_LE(span.begin, span.end);
  }
  EXPECT_EQ(sink->spans[1].phase, Span::Phase::Forward);
  EXPECT_GE(sink->spans[1].end - sink->spans[1].begin, std::chrono::milliseconds(5));
  EXPECT_GE(sink->spans[1].begin, sink->spans[0].end);
  EXPECT_EQ(sink->spans[2].phase, Span::Phase::Backward);
  EXPECT_GE(sink->spans[3].end, sink->spans[2].end);
}

TEST(TraceRegion, HasNoBackwardSpanWithoutAGradient) {
  const auto sink = std::make_shared<Kept>();
  TraceRegion region(std::make_shared<Region>(), sink);
  const at::Tensor weight = leaf();
  region
      .run("embedding",
           {at::ones({3})},
           [&](const Tensors& in) { return Tensors{in[0] * weight}; })[0]
      .sum()
      .backward();
  ASSERT_EQ(sink->spans.size(), 1U);
  EXPECT_TRUE(weight.grad().defined());
}

TEST(TraceRegion, PassesTheCallToTheInnerRegion) {
  struct Negating : Region {
    Tensors run(std::string_view, const Tensors& inputs, const RegionBody& body) override {
      return {-body(inputs)[0]};
    }
  };
  TraceRegion region(std::make_shared<Negating>(), std::make_shared<Kept>());
  EXPECT_TRUE(at::equal(region.run("x", {at::ones({2})}, twice)[0], at::full({2}, -2.0)));
}

}  // namespace
}  // namespace lockstep
