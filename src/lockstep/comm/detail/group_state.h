// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lockstep/comm/detail/call_state.h"
#include "lockstep/comm/detail/job.h"
#include "lockstep/comm/pure/call_history.h"
#include "lockstep/comm/pure/rank_state.h"
#include "lockstep/mesh/rank.h"

namespace lockstep::comm {

/// One group's members, connections and queue.
///
/// A worker thread runs the queued calls one after the other, so that the order is fixed and times are exact. Transfers
/// between two ranks are waited for by threads of their own.
/// Failure  The first error, found by a worker or by the watchdog, breaks the group: calls under way and queued ones end with
///          it, later ones carry it. A worker that hangs in the transport is left behind with the connections: nothing waits
///          for it, not even the destructor.
/// Owner    The world; handles share it.
class GroupState : public std::enable_shared_from_this<GroupState> {
 public:
  struct Members {
    std::string name;               ///< "dp_replicate"
    std::vector<GlobalRank> ranks;  ///< in group order
    int me = 0;                     ///< this rank's place
    std::string key() const;        ///< unique among the job's groups; the same text on all members
    std::string label() const;      ///< "dp_replicate (ranks 0 1 2 3)"
  };

  GroupState(std::shared_ptr<Job> job, Members members);
  ~GroupState();

  /// Starts the worker, which connects first. Apart from the constructor, because the worker shares this object.
  void start();
  void wait_until_connected();

  at::Tensor allocate(std::int64_t elements, at::ScalarType type);

  const Members& members() const { return members_; }
  int size() const { return static_cast<int>(members_.ranks.size()); }
  const std::string& label() const { return label_; }
  const std::string& key() const { return key_; }
  Job& job() const { return *job_; }
  CallHistory& history() { return history_; }
  /// The place of the next text exchange among those of this group.
  std::uint64_t next_exchange() { return next_exchange_++; }

  std::shared_ptr<CallState> enqueue(std::shared_ptr<CallState> call);

  /// An exchange of texts that the caller makes itself, so that the watchdog sees it like a collective: it blocks this rank
  /// until end_exchange, and is ended with an error when the group breaks.
  std::shared_ptr<CallState> begin_exchange(std::string_view subject);
  void end_exchange(CallState& call);

  std::shared_ptr<CallState> current() const;  ///< what blocks the queue; none when idle
  GroupProgress progress() const;
  std::string name(const CallState& call) const;  ///< "all_reduce #17", "send #3 to rank 1"
  Where where(const CallState& call) const;

  void fail(const std::exception_ptr& error);
  bool broken() const { return failure() != nullptr; }
  std::exception_ptr failure() const;  ///< what broke the group; none while it works

  /// Ends the worker: waits for it when the group works, leaves it behind when it is broken.
  void close();

 private:
  struct Posted {
    std::shared_ptr<CallState> call;
    std::unique_ptr<Transfer> transfer;  // none: a recv, posted when its turn comes
  };
  struct Lane {
    std::deque<Posted> queue;
    std::thread thread;
  };

  // Counts a thread out when it ends.
  class Running {
   public:
    explicit Running(GroupState& group) : group_(group) {}
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    ~Running();

   private:
    GroupState& group_;
  };

  void work();
  void run_call(const std::shared_ptr<CallState>& call);
  void connect();
  void compare(const CallState& call);
  bool refuse(CallState& call);
  void note_entered(const CallState& call);
  void begin(const std::shared_ptr<CallState>& call);
  void finish(const std::shared_ptr<CallState>& call);
  std::exception_ptr our_error(const CallState& call);
  /// Breaks the group with the exception being handled, and publishes it. Call in a catch clause.
  void break_at(const CallState& call);

  void post_transfer(const std::shared_ptr<CallState>& call);
  void finish_transfers(Lane& lane);
  void wait_for_transfers();
  std::uint64_t next_transfer(const CallDescription& call);

  const std::shared_ptr<Job> job_;
  const Members members_;
  const std::string key_;
  const std::string label_;
  std::shared_ptr<Backend> backend_;  // set by the worker before any other call runs
  std::shared_ptr<CallState> connecting_;
  std::set<std::string> agreed_;  // descriptions that all ranks were seen to make; worker only
  CallHistory history_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<CallState>> queue_;
  std::shared_ptr<CallState> taken_;     // from the queue by the worker, last
  std::shared_ptr<CallState> current_;   // what the worker blocks on
  std::shared_ptr<CallState> exchange_;  // what a caller blocks on, through the store
  std::deque<EnteredCall> entered_;      // the last few collectives and exchanges
  std::uint64_t finished_ = 0;
  std::string finished_name_;
  std::string last_transfer_;
  std::exception_ptr failure_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_exchange_ = 1;
  std::map<std::pair<Operation, int>, std::uint64_t> transfer_numbers_;
  bool closing_ = false;
  int running_ = 0;        // threads
  int lanes_running_ = 0;  // those of them that wait for transfers
  Lane sends_;
  Lane recvs_;

  std::thread worker_;
};

}  // namespace lockstep::comm
