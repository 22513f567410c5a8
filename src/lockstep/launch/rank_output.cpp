// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/rank_output.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {

namespace {

constexpr std::size_t kMostHeld = 1 << 20;

}  // namespace

LogFile::LogFile(const std::filesystem::path& path) : path_(path) {
  const std::string problem = make();
  if (problem.empty())
    return;
  throw Error({.fault = Fault::Storage,
               .where = {.subject = path.string()},
               .problem = "the log file cannot be made",
               .cause = problem,
               .next = "Give a folder that can be written with --log-dir"});
}

LogFile::LogFile(std::filesystem::path path, std::filesystem::path once_there)
    : path_(std::move(path)), once_there_(std::move(once_there)) {}

std::string LogFile::make() {
  std::error_code code;
  std::filesystem::create_directories(path_.parent_path(), code);
  if (code)
    return code.message();
  fd_ = Fd(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  return fd_.open() ? std::string() : std::generic_category().message(errno);
}

void LogFile::line(std::string_view text) {
  if (!once_there_.empty()) {
    if (held_.size() + text.size() < kMostHeld)
      held_ += cat(text, "\n");
    flush_held();
  } else if (fd_.open()) {
    write_whole(cat(text, "\n"));
  }
}

void LogFile::flush_held() {
  std::error_code none;
  if (once_there_.empty() || !std::filesystem::is_directory(once_there_, none))
    return;
  once_there_.clear();
  if (const std::string problem = make(); !problem.empty())
    problem_ = cat(path_.string(), ": ", problem);
  if (fd_.open())
    write_whole(std::exchange(held_, {}));
}

void LogFile::write_whole(std::string_view text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t size = write(fd_.get(), text.data() + done, text.size() - done);
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0) {
      problem_ = cat(path_.string(), ": ", std::generic_category().message(errno));
      fd_.reset();
      return;
    }
    done += static_cast<std::size_t>(size);
  }
}

std::string LogFile::take_problem() { return std::exchange(problem_, {}); }

Fd RankStream::open() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error({.fault = Fault::Environment,
                 .problem = "the launcher cannot open a pipe to a rank",
                 .cause = std::generic_category().message(errno),
                 .next = "Raise the limit of open files (ulimit -n)"});
  }
  pipe_ = Fd(ends[0]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Fd(ends[1]);
}

void RankStream::add_polls(std::vector<pollfd>& polls) const {
  if (pipe_.open())
    polls.push_back({pipe_.get(), POLLIN, 0});
}

void RankStream::take(std::string_view line, Console& console, LogFile& file) {
  if (route_.to_console)
    console.line(route_.stream, route_.prefix, line);
  file.line(line);
  tail_.add(line);
}

void RankStream::pump(Console& console, LogFile& file) {
  if (!pipe_.open())
    return;
  std::array<char, 65536> buffer;  // NOLINT: filled by read
  const ssize_t size = read(pipe_.get(), buffer.data(), buffer.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (size <= 0) {
    pipe_.reset();
    return;
  }
  cutter_.feed({buffer.data(), static_cast<std::size_t>(size)},
               [&](std::string_view line) { take(line, console, file); });
}

void RankStream::finish(Console& console, LogFile& file) {
  cutter_.finish([&](std::string_view line) { take(line, console, file); });
}

}  // namespace lockstep::launch
