// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace lockstep::test {

/// A command's whole run: how it ended and what it printed.
struct Finished {
  int status = 0;  ///< exit status, or 128 + signal
  bool timed_out = false;
  double seconds = 0;
  std::string out;
  std::string err;
};

struct Command {
  std::vector<std::string> words;
  std::map<std::string, std::string>
      environment;  ///< added to the test's own, from which rank variables are removed
  std::filesystem::path directory;  ///< empty: the test's own
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
};

/// A command that runs in a process group of its own; killed with its group when the object goes.
class Running {
 public:
  explicit Running(const Command& command);
  Running(Running&& other) noexcept;
  Running& operator=(Running&&) = delete;
  ~Running();

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// What came so far on standard output and standard error together.
  std::string printed();
  /// Waits until `text` was printed; false on timeout or when the command ended without it.
  bool wait_for(const std::string& text, std::chrono::milliseconds timeout);
  /// Waits for the end; past `timeout` the group is killed and `timed_out` set.
  Finished wait(std::chrono::milliseconds timeout);

 private:
  void pump(int milliseconds);
  pid_t pid_ = -1;
  int out_ = -1;
  int err_ = -1;
  Finished finished_;
  std::chrono::steady_clock::time_point start_;
};

Finished run(const Command& command);

/// Path of a built program, such as "lockstep".
std::filesystem::path program(const std::string& name);

/// Processes, zombies apart, whose environment holds NAME=VALUE. A test marks a job with one variable and later asks who is left.
std::vector<pid_t> processes_with(const std::string& name, const std::string& value);

/// A fresh folder, removed with all it holds when the object goes.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace lockstep::test
