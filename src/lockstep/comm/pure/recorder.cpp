// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/pure/recorder.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockstep {

namespace {
double milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}
}  // namespace

void Recorder::add(CallRecord record) {
  const std::lock_guard lock(mutex_);
  ++totals_.calls;
  totals_.sent_bytes += record.sent_bytes;
  totals_.busy_ms += milliseconds(record.ended - record.started);
  if (ring_.size() < capacity_) {
    ring_.push_back(std::move(record));
  } else {
    ring_[next_] = std::move(record);
    next_ = (next_ + 1) % capacity_;
  }
}

void Recorder::add_exposed(std::chrono::steady_clock::duration waited) {
  const std::lock_guard lock(mutex_);
  totals_.exposed_ms += milliseconds(waited);
}

CommTotals Recorder::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

std::vector<CallRecord> Recorder::records() const {
  const std::lock_guard lock(mutex_);
  std::vector<CallRecord> ordered;
  ordered.reserve(ring_.size());
  for (std::size_t i = 0; i < ring_.size(); ++i)
    ordered.push_back(ring_[(next_ + i) % ring_.size()]);
  return ordered;
}

std::vector<CallRecord> Recorder::records_since(CallRecord::Clock::time_point start) const {
  std::vector<CallRecord> all = records();
  std::vector<CallRecord> later;
  std::copy_if(all.begin(), all.end(), std::back_inserter(later), [&](const CallRecord& record) {
    return record.enqueued >= start;
  });
  return later;
}

}  // namespace lockstep
