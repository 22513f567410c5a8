// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/shm/waiting.h"

#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

#include <climits>

namespace lockstep::comm::shm {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kNap = std::chrono::milliseconds(20);  // between two looks at `stop`
constexpr auto kSpin = std::chrono::microseconds(10);

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));

// Between processes: not FUTEX_PRIVATE.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  const timespec nap{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kNap).count()};
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, seen, &nap, nullptr, 0);
}

void wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(
      SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

bool spin_for(const Counter& counter, std::uint32_t target, const Patience& patience) {
  static const unsigned cores = std::thread::hardware_concurrency();
  if (static_cast<unsigned>(patience.ranks) > cores)
    return counter.reached(target);
  const auto until = Clock::now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (counter.reached(target))
        return true;
      relax();
    }
  } while (Clock::now() < until);
  return false;
}

}  // namespace

void Counter::set(std::uint32_t next) {
  value.store(next, std::memory_order_seq_cst);
  if (sleepers.load(std::memory_order_seq_cst) > 0)
    wake_all(value);
}

Waited wait_for(Counter& counter, std::uint32_t target, const Patience& patience) {
  if (spin_for(counter, target, patience))
    return Waited::Ready;
  const auto deadline = Clock::now() + patience.timeout;
  Waited result = Waited::Ready;
  counter.sleepers.fetch_add(1, std::memory_order_seq_cst);
  while (!counter.reached(target)) {
    const std::uint32_t seen = counter.value.load(std::memory_order_seq_cst);
    if (static_cast<std::int32_t>(seen - target) >= 0)
      break;
    sleep_while(counter.value, seen);
    if (counter.reached(target))
      break;
    if (patience.stop && patience.stop()) {
      result = Waited::Stopped;
      break;
    }
    if (Clock::now() > deadline) {
      result = Waited::Late;
      break;
    }
  }
  counter.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  return result;
}

Waited Gate::pass(std::uint32_t meeting, int ranks, const Patience& patience) {
  const std::uint32_t here = arrived.value.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (here == meeting * static_cast<std::uint32_t>(ranks)) {
    opened.set(meeting);
    return Waited::Ready;
  }
  return wait_for(opened, meeting, patience);
}

}  // namespace lockstep::comm::shm
