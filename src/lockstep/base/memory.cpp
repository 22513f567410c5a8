// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/memory.h"

#include <atomic>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep {

namespace {

class Counter {
 public:
  void add(std::int64_t bytes) {
    const std::int64_t now = current_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  MemoryUse use() const { return {.current_bytes = current_.load(), .peak_bytes = peak_.load()}; }
  void reset_peak() { peak_.store(current_.load()); }

 private:
  std::atomic<std::int64_t> current_{0};
  std::atomic<std::int64_t> peak_{0};
};

struct Ledger {
  std::array<Counter, kMemoryTags> tags;
  Counter total;
};

Ledger& ledger() {
  static Ledger* const one = new Ledger;  // blocks are freed until the very end of the process
  return *one;
}

thread_local MemoryTag current_tag = MemoryTag::Other;

}  // namespace

std::string_view name_of(MemoryTag tag) {
  switch (tag) {
    case MemoryTag::Other: return "other";
    case MemoryTag::Parameters: return "parameters";
    case MemoryTag::Gradients: return "gradients";
    case MemoryTag::Optimizer: return "optimizer";
    case MemoryTag::Activations: return "activations";
    case MemoryTag::Communication: return "communication";
  }
  LOCKSTEP_ASSERT(false);
  return "";
}

MemoryReport memory_report() {
  MemoryReport report;
  for (std::size_t i = 0; i < kMemoryTags; ++i)
    report.tags[i] = ledger().tags[i].use();
  report.total = ledger().total.use();
  return report;
}

void reset_memory_peaks() {
  for (Counter& counter : ledger().tags)
    counter.reset_peak();
  ledger().total.reset_peak();
}

void count_memory(MemoryTag tag, std::int64_t bytes) {
  ledger().tags[static_cast<std::size_t>(tag)].add(bytes);
  ledger().total.add(bytes);
}

MemoryTag current_memory_tag() { return current_tag; }

MemoryScope::MemoryScope(MemoryTag tag) : before_(std::exchange(current_tag, tag)) {}
MemoryScope::~MemoryScope() { current_tag = before_; }

}  // namespace lockstep
