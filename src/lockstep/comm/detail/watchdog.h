// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "lockstep/comm/detail/group_state.h"
#include "lockstep/comm/detail/job.h"

namespace lockstep::comm {

/// A world's thread that keeps every wait honest. Once a second, or four times a timeout where that is shorter, it
///   publishes where this rank stands, and looks for the first failure that another rank published;
///   compares the call of a group that is blocked for that long with those of its members (Mismatch), and looks whether a
///   member is gone or has finished;
/// and at a call's deadline it collects where all members stand and says who is missing and where that rank is.
/// Whatever it finds breaks the group (all groups, when a rank failed) and is published as this rank's failure.
class Watchdog {
 public:
  explicit Watchdog(std::shared_ptr<Job> job);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void watch(std::shared_ptr<GroupState> group);
  /// Publishes, through `store`, that this rank finished.
  void leave(Store& store);
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void look(Clock::time_point now);
  void exchange();
  void publish(Store& store);
  void check_deadline(GroupState& group, const CallState& call, Clock::time_point now);
  void check_peers(GroupState& group, const CallState& call);
  void found(GroupState& group, const CallState& call, Facts facts);
  void fail_all(const Failure& failure);
  std::vector<std::shared_ptr<GroupState>> groups() const;

  const std::shared_ptr<Job> job_;
  const std::chrono::milliseconds interval_;  // between exchanges with the store
  const std::chrono::milliseconds tick_;
  Clock::time_point next_exchange_{};
  bool store_lost_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<GroupState>> groups_;
  bool stopping_ = false;
  std::mutex publish_mutex_;
  std::uint64_t beat_ = 0;
  bool left_ = false;
  std::thread thread_;
};

}  // namespace lockstep::comm
