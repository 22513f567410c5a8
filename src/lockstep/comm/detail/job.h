// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/agent.h"
#include "lockstep/comm/backend/store.h"
#include "lockstep/comm/pure/failure.h"
#include "lockstep/comm/pure/process_card.h"
#include "lockstep/comm/pure/rank_identity.h"
#include "lockstep/comm/pure/recorder.h"

namespace lockstep::comm {

namespace shm {
class Heap;
}

/// A wait before each operation, for tests of overlap and races.
struct Delay {
  double low_ms = 0;
  double high_ms = 0;
  static Delay from_environment();  ///< LOCKSTEP_DEBUG_COMM_DELAY_MS=LOW:HIGH, or one number
};

/// What the groups, their workers and the watchdog of one world share. It owns none of them, so that a worker that hangs in
/// a transport can be left behind with it.
class Job {
 public:
  using Milliseconds = std::chrono::milliseconds;

  RankIdentity identity;
  Milliseconds timeout{};          ///< of every wait once the ranks have met
  Milliseconds join_timeout{};     ///< of meeting: connecting to the table, waiting for all ranks
  std::string host;                ///< address of this machine that peers reach
  std::string transport = "auto";  ///< of CPU tensors
  std::shared_ptr<shm::Heap>
      heap;                   ///< with transport shm; shared with its groups and the tensors in it
  bool serves_store = false;  ///< this process holds the job's table
  std::atomic<bool> found_late_rank =
      false;                           ///< this rank was the first to tell that another one is late
  std::shared_ptr<Store> store;        ///< of callers and workers
  std::shared_ptr<Store> watch_store;  ///< of the watchdog
  ProcessCard own_card;
  std::vector<ProcessCard> cards;  ///< of all ranks, once joined; empty when ranks are threads
  Recorder recorder;

  const ProcessCard* card(int rank) const {
    return cards.empty() ? nullptr : &cards.at(static_cast<std::size_t>(rank));
  }
  int rank() const { return identity.rank; }
  int size() const { return identity.size; }

  void set_phase(std::string_view phase);
  std::string phase() const;

  void delay() const;

  /// Publishes this rank's failure unless another one was there first. Returns the first failure of the job.
  Failure publish(const Failure& failure);
  /// The first failure of the job that is known to this rank, asking the store when there is none yet.
  std::optional<Failure> first_failure(Store& through);

  /// To the launcher, once; later calls do nothing.
  void tell_failed(const Failure& failure, bool consequence);
  void tell_finished();
  void tell_joined();
  void tell_phase();

 private:
  mutable std::mutex mutex_;
  std::string phase_ = "starting";
  std::string told_phase_;
  std::optional<Failure> failure_;
  bool told_end_ = false;
  const Delay delay_ = Delay::from_environment();
  Agent agent_ = Agent::from_environment();
};

}  // namespace lockstep::comm
