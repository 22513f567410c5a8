// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>
#include <vector>

#include "lockstep/launch/fd.h"

namespace lockstep::launch {

/// The process that serves the ranks' store on a socket that the launcher bound. Ranks may connect before it runs: they wait in
/// the socket's queue. It outlives all ranks and is killed with the object.
class StoreProcess {
 public:
  /// Throws Environment when it cannot be started.
  StoreProcess(const std::filesystem::path& engine,
               Fd listening,
               const std::vector<std::string>& environment);
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;
  ~StoreProcess();

  pid_t pid() const { return pid_; }
  /// How it ended, with what it printed last; empty while it runs.
  std::string problem();

 private:
  pid_t pid_ = -1;
  Fd output_;
  std::string problem_;
};

}  // namespace lockstep::launch
