// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/store.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/launch/failure.h"
#include "lockstep/launch/process.h"

namespace lockstep::launch {

StoreProcess::StoreProcess(std::filesystem::path engine,
                           Fd listening,
                           std::vector<std::string> environment)
    : engine_(std::move(engine)),
      listening_(std::move(listening)),
      environment_(std::move(environment)) {}

void StoreProcess::start(Guard& guard) {
  std::array<int, 2> ends = {-1, -1};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0)
    output_ = Fd(ends[0]);
  const Fd writing(ends[1]);
  pid_ = start_process({.words = {engine_.string(), "store", "--fd", cat(listening_.get())},
                        .environment = environment_,
                        .out = writing.get(),
                        .err = writing.get(),
                        .inherited = listening_.get(),
                        .guard = guard.pipe()});
  started_ = true;
  listening_.reset();  // the store has it: when the store goes, ranks must not wait in its queue
}

void StoreProcess::add_polls(std::vector<pollfd>& polls) const {
  if (!started_)
    polls.push_back({listening_.get(), POLLIN, 0});
}

bool StoreProcess::somebody_waits() const {
  pollfd waiting{listening_.get(), POLLIN, 0};
  return !started_ && poll(&waiting, 1, 0) > 0;
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
