// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "lockstep/comm/detail/group_state.h"
#include "lockstep/comm/detail/job.h"
#include "lockstep/comm/detail/watchdog.h"

namespace lockstep::comm {

/// What a World is inside: it owns the groups and the watchdog. Ends in this order: tell the others, groups, watchdog.
class WorldState {
 public:
  explicit WorldState(std::shared_ptr<Job> job);
  ~WorldState();

  Job& job() const { return *job_; }
  /// Makes a group of this rank's part, or returns the one that is there.
  std::shared_ptr<GroupState> add_group(GroupState::Members members);
  const std::shared_ptr<GroupState>& all() const { return all_; }

  std::string standing() const;

  /// Ends this rank as one that did all it had to. Throws the failure of a group that broke, whether or not anybody waited
  /// for the call that broke it; the rank has failed then.
  void finish();
  void fail(const std::exception& error);

 private:
  void throw_lost_failure();
  void wait_for_others();
  void count_out();
  std::string last_operation() const;

  const std::shared_ptr<Job> job_;
  std::unique_ptr<Watchdog> watchdog_;
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<GroupState>> groups_;  // by key
  std::shared_ptr<GroupState> all_;
  bool ended_ = false;  // finished or failed
};

/// Registers this rank in the store and waits for all others. While waiting it says every few seconds who is missing.
/// Errors   Environment: two processes claim one rank. Peer: the timeout passed; names the missing ranks.
void join(Job& job);
/// The same; a failure is published first, so that ranks that wait longer end too.
void join_or_fail(Job& job);

/// Opens the store that the identity names, as its server or as a client, and chooses the address that peers reach.
void open_stores(Job& job);

}  // namespace lockstep::comm
