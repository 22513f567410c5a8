// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/guard.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/process.h"

namespace lockstep::launch {

namespace {

// Holds nothing of the launcher's but the pipe: an open standard output would keep a reader waiting.
void keep_only(int pipe) {
  const int null = open("/dev/null", O_RDWR);
  for (int target = 0; target < 3; ++target)
    dup2(null, target);
  dup2(pipe, 3);
  close_range(4, ~0U, 0);
}

[[noreturn]] void stand_guard(int pipe,
                              const std::string& job,
                              const std::filesystem::path& folder) {
  setsid();
  prctl(PR_SET_NAME, "lockstep-guard");
  keep_only(pipe);
  JobProcesses processes{.id = job, .groups = {}};
  for (;;) {
    pid_t group = 0;
    const ssize_t size = read(3, &group, sizeof group);
    if (size < 0 && errno == EINTR)
      continue;
    if (size != sizeof group)
      break;
    processes.groups.push_back(group);
  }
  kill_all(processes);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  _exit(0);
}

}  // namespace

Guard::Guard(std::string job, std::filesystem::path folder) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0 || (pid_ = fork()) < 0) {
    throw Error({.fault = Fault::Environment,
                 .problem = "the launcher cannot start its guard process",
                 .cause = std::generic_category().message(errno),
                 .next = "Free processes or file descriptors (ulimit -u, ulimit -n)"});
  }
  if (pid_ == 0) {
    close(ends[1]);
    stand_guard(ends[0], job, folder);
  }
  close(ends[0]);
  pipe_ = Fd(ends[1]);
}

Guard::~Guard() {
  if (pid_ < 0)
    return;
  pipe_.reset();
  waitpid(pid_, nullptr, 0);  // kill_all is bounded
}

void Guard::dismiss() {
  if (pid_ < 0)
    return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace lockstep::launch
