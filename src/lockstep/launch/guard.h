// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <sys/types.h>

#include "lockstep/launch/fd.h"

namespace lockstep::launch {

/// A process that waits at a pipe to the launcher. When the pipe closes, however the launcher ended, it kills every process
/// group it was told of, every process of the job, and removes the job's temporary folder. (A parent-death signal would not
/// reach grandchildren.) Destroying the guard has the same effect; `dismiss` ends it without.
class Guard {
 public:
  Guard(std::string job, std::filesystem::path folder);
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard();

  pid_t pid() const { return pid_; }
  /// Where a process group's number is written that must not outlive the launcher. Not inherited by
  /// programs.
  int pipe() const { return pipe_.get(); }
  void dismiss();

 private:
  Fd pipe_;
  pid_t pid_ = -1;
};

}  // namespace lockstep::launch
