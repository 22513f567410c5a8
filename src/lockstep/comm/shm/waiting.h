// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

namespace lockstep::comm::shm {

/// How long to wait for other ranks, and when to give up earlier.
struct Patience {
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// Asked several times a second while waiting: true ends the wait. None: nothing but the timeout ends it.
  std::function<bool()> stop;
  int ranks = 2;  ///< that share the cores: with more ranks than cores nobody spins
};

enum class Waited { Ready, Late, Stopped };

/// A counter in shared memory that only grows (modulo 2^32), and who sleeps on it. On a cache line of its own.
struct alignas(64) Counter {
  std::atomic<std::uint32_t> value{0};
  std::atomic<std::uint32_t> sleepers{0};

  bool reached(std::uint32_t target) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_seq_cst) - target) >= 0;
  }
  /// Everything written before is seen by whoever sees the value.
  void set(std::uint32_t next);
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// Waits until `counter` reaches `target`: a short spin, then a sleep in the kernel that the other side's set() ends.
Waited wait_for(Counter& counter, std::uint32_t target, const Patience& patience);

/// Where all ranks of a block meet. Each keeps its own count of meetings.
/// Cost     one atomic addition a rank, and at most one sleep; the last to come wakes the others.
struct Gate {
  Counter arrived;
  Counter opened;

  /// Everything that any rank wrote before it came is seen by all that return Ready.
  Waited pass(std::uint32_t meeting, int ranks, const Patience& patience);
};

}  // namespace lockstep::comm::shm
