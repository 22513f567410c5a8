// SPDX-License-Identifier: Apache-2.0
// The Chrome trace of a real run shows what docs/one-step.md tells.
#include <algorithm>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

#include "support/process.h"

namespace lockstep::test {
namespace {

struct Event {
  std::string name, category;
  double begin = 0, end = 0;
};

std::vector<Event> events_of_rank_0(const std::string& text) {
  std::vector<Event> events;
  const nlohmann::json trace = nlohmann::json::parse(text);
  for (const auto& entry : trace.is_array() ? trace : trace.at("traceEvents")) {
    if (entry.at("ph") != "X" || entry.at("pid") != 0)
      continue;
    const double begin = entry.at("ts").get<double>();
    events.push_back(
        {entry.at("name"), entry.at("cat"), begin, begin + entry.at("dur").get<double>()});
  }
  return events;
}

const Event& only(const std::vector<Event>& events, const std::string& name, const Event& within) {
  const auto found = std::find_if(events.begin(), events.end(), [&](const Event& event) {
    return event.name == name && event.begin >= within.begin && event.end <= within.end;
  });
  if (found == events.end())
    throw std::runtime_error(cat("no ", name, " in ", within.name));
  return *found;
}

TEST(Trace, FirstReductionStartsBeforeTheLastGradientAndForwardSendsNothing) {
  const TemporaryFolder folder;
  const std::string data = cat(LOCKSTEP_SOURCE_DIR, "/data/demo/train.tokens");
  const Finished finished = run({.words = {program("lockstep").string(),
                                           "train",
                                           cat(LOCKSTEP_SOURCE_DIR, "/configs/tiny.toml"),
                                           "-n",
                                           "2",
                                           "--steps",
                                           "6",
                                           "--out",
                                           (folder / "run").string(),
                                           "--trace",
                                           (folder / "trace.json").string(),
                                           "--set",
                                           cat("data.train=", data),
                                           "--set",
                                           "data.valid=[]"}});
  ASSERT_EQ(finished.status, 0) << finished.out << finished.err;
  const std::vector<Event> events = events_of_rank_0(read_file(folder / "trace.json"));
  int steps = 0;
  for (const Event& step : events) {
    if (step.category != "step")
      continue;
    ++steps;
    const Event& forward = only(events, "forward", step);
    const Event& backward = only(events, "backward", step);
    double first_reduction = std::numeric_limits<double>::max();
    double last_gradient = 0;
    for (const Event& event : events) {
      const bool inside = event.begin >= step.begin && event.end <= step.end;
      if (!inside)
        continue;
      if (contains(event.name, "all_reduce")) {
        EXPECT_GE(event.begin, forward.end) << event.name << " in forward";
        first_reduction = std::min(first_reduction, event.begin);
      }
      if (event.category == "backward" && event.name.starts_with("layers."))
        last_gradient = std::max(last_gradient, event.end);
    }
    EXPECT_LT(first_reduction, last_gradient) << step.name;
    EXPECT_LT(first_reduction, backward.end) << step.name;
  }
  EXPECT_GE(steps, 3);
}

}  // namespace
}  // namespace lockstep::test
