// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/comm/pure/call_description.h"

namespace lockstep {

/// One finished call of one group, as it was on this rank.
struct CallRecord {
  using Clock = std::chrono::steady_clock;
  std::string group;           ///< label
  std::uint64_t sequence = 0;  ///< per group, from 1
  CallDescription call;
  Clock::time_point enqueued, started, ended;
  std::int64_t sent_bytes = 0;  ///< payload this rank handed to the wire
  bool failed = false;
};

/// Sums since the recorder was made; the difference of two is a step's traffic.
struct CommTotals {
  std::int64_t calls = 0;
  std::int64_t sent_bytes = 0;
  double busy_ms = 0;     ///< operations under way, whether or not somebody waited
  double exposed_ms = 0;  ///< callers blocked in Pending::wait
};

/// What every collective of a world passes: the last calls in a ring, and totals. One a world; made with it.
/// The watchdog, hang report, metrics and trace read this one record.
/// Threads: all functions may be called from any thread.
class Recorder {
 public:
  explicit Recorder(std::size_t capacity = 8192) : capacity_(capacity) {}

  void add(CallRecord record);
  void add_exposed(std::chrono::steady_clock::duration waited);

  CommTotals totals() const;
  std::vector<CallRecord> records() const;  ///< the last `capacity`, oldest first
  std::vector<CallRecord> records_since(
      CallRecord::Clock::time_point start) const;  ///< those enqueued at `start` or later

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<CallRecord> ring_;
  std::size_t next_ = 0;
  CommTotals totals_;
};

}  // namespace lockstep
