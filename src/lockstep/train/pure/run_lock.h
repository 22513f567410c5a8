// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace lockstep::train {

/// The right to write a run directory, held by one process until it ends: the file `.lock` in it, locked, with the process's
/// id and host. The kernel takes the lock back at the end of the process, whatever its end; the file stays.
///
/// Errors  Config: another process has it, named by its id and host. Storage: the file cannot be written. On a file system
///         without locks nothing is locked, and a warning says so.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& run);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

 private:
  int fd_ = -1;
};

/// Throws the same Config error where a process has the run directory now. Writes nothing.
void check_not_in_use(const std::filesystem::path& run);

}  // namespace lockstep::train
