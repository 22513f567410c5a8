// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/fd.h"

extern char** environ;

namespace lockstep::launch {

namespace {

std::vector<char*> pointers_of(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

void become(const Start& start, char* const* argv, char* const* envp, int failure_pipe) {
  setsid();
  if (start.guard >= 0) {
    const pid_t group = getpid();
    [[maybe_unused]] const ssize_t told = write(start.guard, &group, sizeof group);
  }
  sigset_t none;
  sigemptyset(&none);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGCHLD, SIGPIPE})
    ::signal(signal, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  const std::array<int, 3> wanted = {start.in, start.out, start.err};
  for (int target = 0; target < 3; ++target) {
    const int source = wanted[static_cast<std::size_t>(target)] >= 0
                           ? wanted[static_cast<std::size_t>(target)]
                           : null;
    if (source == target) {
      fcntl(target, F_SETFD, 0);
    } else {
      dup2(source, target);
    }
  }
  if (start.inherited >= 0)
    fcntl(start.inherited, F_SETFD, 0);
  execve(argv[0], argv, envp);
  const int code = errno;
  [[maybe_unused]] const ssize_t told = write(failure_pipe, &code, sizeof code);
  _exit(127);
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file)
    text << file.rdbuf();
  return text.str();
}

struct Stat {
  char state = '?';
  pid_t group = 0;
};

Stat stat_of(const std::filesystem::path& process) {
  const std::string text = content_of(process / "stat");
  const std::size_t name_end =
      text.rfind(')');  // "pid (name) state parent group": the name may hold anything
  Stat stat;
  if (name_end == std::string::npos)
    return stat;
  std::istringstream fields(text.substr(name_end + 1));
  pid_t parent = 0;
  fields >> stat.state >> parent >> stat.group;
  return stat;
}

bool carries(const std::filesystem::path& process, const std::string& job) {
  for (const std::string& assignment : split(content_of(process / "environ"), '\0')) {
    if (!assignment.starts_with("LOCKSTEP_JOB="))
      continue;
    const std::vector<std::string> ids = split(assignment.substr(13), '/');
    if (std::find(ids.begin(), ids.end(), job) != ids.end())
      return true;
  }
  return false;
}

}  // namespace

pid_t start_process(const Start& start) {
  std::vector<std::string> words = start.words;
  std::vector<std::string> assignments = start.environment;
  const std::vector<char*> argv = pointers_of(words);
  const std::vector<char*> envp = pointers_of(assignments);
  std::array<int, 2> ends{};
  int code = 0;
  pid_t pid = -1;
  if (pipe2(ends.data(), O_CLOEXEC) == 0) {
    const Fd told(ends[0]);
    Fd telling(ends[1]);
    pid = fork();
    if (pid == 0)
      become(start, argv.data(), envp.data(), telling.get());
    if (pid < 0)
      code = errno;
    telling.reset();
    if (pid > 0 && read(told.get(), &code, sizeof code) == sizeof code)
      waitpid(pid, nullptr, 0);
  } else {
    code = errno;
  }
  if (code == 0)
    return pid;
  throw Error({.fault = Fault::Environment,
               .where = {.subject = start.words.front()},
               .problem = "the program cannot be started",
               .cause = std::generic_category().message(code),
               .next = code == ENOEXEC
                           ? "Give its interpreter before it, or make its first line name one"
                           : "Check that it is a program of this machine"});
}

std::string resolve_program(const std::string& word) {
  const auto runs = [](const std::string& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
  };
  const bool has_folder = contains(word, "/");
  if (has_folder && runs(word))
    return word;
  if (!has_folder) {
    for (const std::string& folder :
         split(env("PATH").value_or("/usr/local/bin:/usr/bin:/bin"), ':')) {
      const std::string path = cat(folder.empty() ? "." : folder, "/", word);
      if (runs(path))
        return path;
    }
  }
  throw Error({.fault = Fault::Usage,
               .where = {.subject = cat("program '", word, "'")},
               .problem = has_folder ? "there is no such file that can be executed"
                                     : "no folder of PATH has such a program",
               .next = has_folder ? "Give the path of an executable file"
                                  : cat("Give its path, such as ./", word)});
}

std::vector<std::string> own_environment() {
  std::vector<std::string> assignments;
  for (char** entry = environ; *entry != nullptr; ++entry)
    assignments.emplace_back(*entry);
  return assignments;
}

std::vector<pid_t> living(const JobProcesses& job) {
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto number = parse_int(entry.path().filename().string());
    if (!number || *number == getpid())
      continue;
    const Stat stat = stat_of(entry.path());
    if (stat.state == 'Z' || stat.state == 'X' || stat.state == '?')
      continue;
    const bool in_group =
        std::find(job.groups.begin(), job.groups.end(), stat.group) != job.groups.end();
    if (in_group || carries(entry.path(), job.id))
      found.push_back(static_cast<pid_t>(*number));
  }
  return found;
}

void kill_all(const JobProcesses& job) {
  for (const pid_t group : job.groups)
    kill(-group, SIGKILL);
  // A process may fork while it is looked for: look again until nothing is found.
  for (int round = 0; round < 100; ++round) {
    const std::vector<pid_t> left = living(job);
    if (left.empty())
      return;
    for (const pid_t pid : left)
      kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace lockstep::launch
