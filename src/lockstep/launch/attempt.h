// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/launch/agents.h"
#include "lockstep/launch/console.h"
#include "lockstep/launch/failure.h"
#include "lockstep/launch/guard.h"
#include "lockstep/launch/options.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/rank_output.h"
#include "lockstep/launch/store.h"

namespace lockstep::launch {

/// What all attempts of a job share; lives longer than they do.
struct Job {
  const Options& options;
  std::string id;
  std::string path;              ///< ids of the launchers above and this one, for LOCKSTEP_JOB
  std::filesystem::path folder;  ///< temporary, of this job
  std::vector<std::string> inherited;  ///< the launcher's own environment
  int port = 0;
  int signals = -1;  ///< signalfd
  Console console;
  Guard* guard = nullptr;
  StoreProcess* store = nullptr;  ///< null on nodes that do not serve it
};

struct AttemptResult {
  std::vector<RankEnd> ends;
  int interrupt = 0;                     ///< the signal that the launcher got, 0: none
  bool failed_before_interrupt = false;  ///< the ranks were being stopped because of a failure
  std::string store_problem;             ///< the store ended under the ranks
  std::vector<pid_t> unkillable;
};

/// One start of all local ranks until none of their processes is left.
///
/// A failed rank starts the end: ranks that joined get a second to fail by themselves, with their own message; then SIGTERM to
/// every rank's process group; at `shutdown_timeout` after the failure SIGKILL. A signal to the launcher is SIGTERM to the
/// ranks and SIGKILL at `leave_timeout`, a second signal SIGKILL at once; other than Ctrl-C it counts as a second one only
/// after a second.
class Attempt {
 public:
  Attempt(Job& job, int number);
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt();

  void start();
  AttemptResult run();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { Running, Grace, Stopping, Killing, Leftovers, Done };
  struct Worker {
    RankEnd end;
    pid_t pid = -1;
    bool running = false;
    std::unique_ptr<RankLine> line;
    RankStream out;
    RankStream err;
    LogFile file;
    std::filesystem::path error_file;
  };

  Worker prepare(int local_rank) const;
  void start_worker(Worker& worker);
  bool any_running() const;
  JobProcesses processes() const;

  void wait_for_events();
  void take_signals();
  void take_exits();
  void take_store_exit();
  void take_messages(Worker& worker);
  void take_output();
  void take_loss_of_output();
  void failure_seen(const Worker& worker);
  void advance();
  void stop_within(std::chrono::milliseconds timeout);
  void stop_ranks();
  void kill_ranks();
  void look_for_leftovers();
  void drain();
  AttemptResult result();

  Job& job_;
  int number_;
  std::vector<Worker> workers_;
  Stage stage_ = Stage::Running;
  Clock::time_point next_{};     ///< when the stage must be looked at again
  Clock::time_point stop_by_{};  ///< SIGKILL from then on
  std::chrono::milliseconds stop_timeout_{};
  Clock::time_point interrupted_at_{};
  bool killed_by_wish_ = false;
  int order_ = 0;
  AttemptResult result_;
  bool leftovers_asked_ = false;
};

}  // namespace lockstep::launch
