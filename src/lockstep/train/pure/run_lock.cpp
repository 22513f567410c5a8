// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/run_lock.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

fs::path lock_file(const fs::path& run) { return run / ".lock"; }

std::string this_process() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return cat("pid ", getpid(), " on host ", host.data());
}

/// What the holder wrote of itself; it may not have come to that yet.
std::string holder(int fd) {
  std::array<char, 512> text{};
  const ssize_t size = pread(fd, text.data(), text.size(), 0);
  const std::string_view line = trim({text.data(), size > 0 ? static_cast<std::size_t>(size) : 0});
  return line.empty() ? "another process" : std::string(line);
}

Error in_use(const fs::path& run, int fd) {
  return Error({.fault = Fault::Config,
                .where = {.subject = run.string()},
                .problem = cat("the run directory is in use by ", holder(fd)),
                .next = "Wait until it ends, stop it, or choose another by --out DIR"});
}

Error not_writable(const fs::path& run) {
  return Error({.fault = Fault::Storage,
                .where = {.subject = lock_file(run).string()},
                .problem = "the run directory cannot be written",
                .cause = std::generic_category().message(errno),
                .next = "Choose another by --out DIR"});
}

}  // namespace

RunLock::RunLock(const fs::path& run)
    : fd_(open(lock_file(run).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (fd_ < 0)
    throw not_writable(run);
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      const Error error = in_use(run, fd_);
      close(fd_);
      throw error;
    }
    log(LogLevel::Warning,
        cat(lock_file(run).string(),
            ": the file system has no locks (",
            std::generic_category().message(errno),
            "); see to it yourself that no second run uses this directory"));
  }
  const std::string text = this_process() + "\n";
  if (ftruncate(fd_, 0) != 0 ||
      pwrite(fd_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    const Error error = not_writable(run);
    close(fd_);
    throw error;
  }
}

RunLock::~RunLock() { close(fd_); }

void check_not_in_use(const fs::path& run) {
  const int fd = open(lock_file(run).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;  // no run was here
  const bool taken = flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  const Error error = in_use(run, fd);
  close(fd);
  if (taken)
    throw error;
}

}  // namespace lockstep::train
