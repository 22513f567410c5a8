// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::train {

/// A stretch of time of one rank.
struct Span {
  std::string name;      ///< "layers.2", "all_reduce 'bucket 0'"
  std::string category;  ///< forward | backward | comm | optimizer | data | step
  std::string track;     ///< the row it is drawn in: "main", "comm"
  double start_us = 0;   ///< from the trace's start
  double duration_us = 0;
  std::map<std::string, std::string> facts;  ///< shown when the span is clicked on
};

/// Collects the spans of one rank. Threads: any.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  void start();  ///< now is time 0, and spans count from here on
  void stop();
  bool running() const;
  Clock::time_point started() const { return start_; }
  void add(std::string_view name,
           std::string_view category,
           std::string_view track,
           Clock::time_point begin,
           Clock::time_point end,
           std::map<std::string, std::string> facts = {});
  std::vector<Span> spans() const;

 private:
  mutable std::mutex mutex_;
  bool running_ = false;
  Clock::time_point start_{};
  std::vector<Span> spans_;
};

std::string to_json(const std::vector<Span>& spans);
std::vector<Span> parse_spans(std::string_view text);

/// A Chrome trace (Trace Event Format, complete events): a process a rank, a thread a track. chrome://tracing and Perfetto read
/// it. `ranks[r]` holds the spans of rank r.
std::string chrome_trace(const std::vector<std::vector<Span>>& ranks);

}  // namespace lockstep::train
