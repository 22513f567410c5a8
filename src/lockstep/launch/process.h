// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace lockstep::launch {

struct Start {
  std::vector<std::string> words;        ///< the first is a path
  std::vector<std::string> environment;  ///< NAME=VALUE
  int in = -1;                           ///< -1: /dev/null
  int out = -1;
  int err = -1;
  int inherited = -1;  ///< one more descriptor that stays open under its number
  int guard = -1;      ///< Guard::pipe(): told of the new group before the program runs
};

/// Starts a program in a session and process group of its own, with no signal blocked. Returns when it runs. The child itself
/// tells the guard, so that a launcher that is killed at this moment leaves nobody behind.
/// Throws Environment when it cannot be started.
pid_t start_process(const Start& start);

/// The path that `word` names: itself where it holds a '/', else the first executable of PATH. Throws Usage when there is none.
std::string resolve_program(const std::string& word);

/// All of this process's environment, NAME=VALUE.
std::vector<std::string> own_environment();

/// Whose processes: those in the process groups of the ranks, and those that carry `id` in LOCKSTEP_JOB, which also finds the
/// ones that left their rank's group.
struct JobProcesses {
  std::string id;
  std::vector<pid_t> groups;
};

/// Processes of the job that live (zombies do not), the calling one left out.
std::vector<pid_t> living(const JobProcesses& job);

/// Sends SIGKILL to every process of the job until none is left, for at most about two seconds.
void kill_all(const JobProcesses& job);

}  // namespace lockstep::launch
