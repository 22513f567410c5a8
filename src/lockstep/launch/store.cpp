// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/store.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/base/text.h"
#include "lockstep/launch/failure.h"
#include "lockstep/launch/process.h"

namespace lockstep::launch {

StoreProcess::StoreProcess(const std::filesystem::path& engine,
                           Fd listening,
                           const std::vector<std::string>& environment) {
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0)
    output_ = Fd(ends[0]);
  const Fd writing(ends[1]);
  pid_ = start_process({.words = {engine.string(), "store", "--fd", cat(listening.get())},
                        .environment = environment,
                        .out = writing.get(),
                        .err = writing.get(),
                        .inherited = listening.get()});
}

StoreProcess::~StoreProcess() {
  if (pid_ <= 0)
    return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string StoreProcess::problem() {
  int status = 0;
  if (pid_ <= 0 || waitpid(pid_, &status, WNOHANG) != pid_)
    return problem_;
  pid_ = -1;
  std::array<char, 4096> buffer{};
  const ssize_t size = output_.open() ? read(output_.get(), buffer.data(), buffer.size()) : 0;
  problem_ = WIFSIGNALED(status) ? cat("killed by ", signal_name(WTERMSIG(status)))
                                 : cat("exit status ", WEXITSTATUS(status));
  if (size > 0)
    problem_ += cat(": ", trim(std::string_view(buffer.data(), static_cast<std::size_t>(size))));
  return problem_;
}

}  // namespace lockstep::launch
