// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <poll.h>
#include <string>
#include <sys/types.h>
#include <vector>

#include "lockstep/launch/fd.h"
#include "lockstep/launch/guard.h"

namespace lockstep::launch {

/// The process that serves the ranks' store on a socket that the launcher bound. Ranks may connect
/// before it runs: they wait in the socket's queue. It outlives all ranks and is killed with the object.
class StoreProcess {
 public:
  StoreProcess(std::filesystem::path engine, Fd listening, std::vector<std::string> environment);
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;
  ~StoreProcess();

  bool started() const { return started_; }
  /// Starts it, in a group that `guard` watches. Throws Environment when it cannot be started.
  void start(Guard& guard);
  /// Readable when somebody connects while the store is not started yet; then `somebody_waits`.
  void add_polls(std::vector<pollfd>& polls) const;
  bool somebody_waits() const;
  /// How it ended, with what it printed last; empty while it runs.
  std::string problem();

 private:
  std::filesystem::path engine_;
  Fd listening_;
  std::vector<std::string> environment_;
  bool started_ = false;
  pid_t pid_ = -1;
  Fd output_;
  std::string problem_;
};

}  // namespace lockstep::launch
