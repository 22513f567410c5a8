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

LogFile::LogFile(const std::filesystem::path& path) : path_(path) {
  std::error_code code;
  std::filesystem::create_directories(path.parent_path(), code);
  if (!code)
    fd_ = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  if (fd_.open())
    return;
  throw Error({.fault = Fault::Storage,
               .where = {.subject = path.string()},
               .problem = "the log file cannot be made",
               .cause = code ? code.message() : std::generic_category().message(errno),
               .next = "Give a folder that can be written with --log-dir"});
}

void LogFile::line(std::string_view text) {
  if (!fd_.open())
    return;
  std::string whole(text);
  whole.push_back('\n');
  for (std::size_t done = 0; done < whole.size();) {
    const ssize_t size = write(fd_.get(), whole.data() + done, whole.size() - done);
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
