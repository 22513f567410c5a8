// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/trace.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

using Json = nlohmann::ordered_json;

double microseconds(Trace::Clock::duration time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

Json metadata(std::string_view what, int rank, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void Trace::start() {
  const std::lock_guard lock(mutex_);
  running_ = true;
  start_ = Clock::now();
  spans_.clear();
}

void Trace::stop() {
  const std::lock_guard lock(mutex_);
  running_ = false;
}

bool Trace::running() const {
  const std::lock_guard lock(mutex_);
  return running_;
}

void Trace::add(std::string_view name,
                std::string_view category,
                std::string_view track,
                Clock::time_point begin,
                Clock::time_point end,
                std::map<std::string, std::string> facts) {
  const std::lock_guard lock(mutex_);
  if (!running_ || begin < start_)
    return;
  spans_.push_back({.name = std::string(name),
                    .category = std::string(category),
                    .track = std::string(track),
                    .start_us = microseconds(begin - start_),
                    .duration_us = microseconds(end - begin),
                    .facts = std::move(facts)});
}

std::vector<Span> Trace::spans() const {
  const std::lock_guard lock(mutex_);
  return spans_;
}

std::string to_json(const std::vector<Span>& spans) {
  Json list = Json::array();
  for (const Span& span : spans) {
    list.push_back(
        {span.name, span.category, span.track, span.start_us, span.duration_us, span.facts});
  }
  return list.dump();
}

std::vector<Span> parse_spans(std::string_view text) {
  std::vector<Span> spans;
  for (const auto& row : nlohmann::json::parse(text)) {
    spans.push_back({.name = row.at(0),
                     .category = row.at(1),
                     .track = row.at(2),
                     .start_us = row.at(3),
                     .duration_us = row.at(4),
                     .facts = row.at(5)});
  }
  return spans;
}

std::string chrome_trace(const std::vector<std::vector<Span>>& ranks) {
  Json events = Json::array();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    events.push_back(metadata("process_name", rank, 0, cat("rank ", rank)));
    std::map<std::string, int> threads;
    for (const Span& span : ranks[r]) {
      const auto [track, is_new] =
          threads.try_emplace(span.track, static_cast<int>(threads.size()));
      if (is_new)
        events.push_back(metadata("thread_name", rank, track->second, span.track));
      events.push_back({{"ph", "X"},
                        {"name", span.name},
                        {"cat", span.category},
                        {"pid", rank},
                        {"tid", track->second},
                        {"ts", span.start_us},
                        {"dur", span.duration_us},
                        {"args", span.facts}});
    }
  }
  return Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump() + "\n";
}

}  // namespace lockstep::train
