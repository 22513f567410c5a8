// SPDX-License-Identifier: Apache-2.0
#include "support/process.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "lockstep/base/text.h"

extern char** environ;

namespace lockstep::test {

namespace {

using Clock = std::chrono::steady_clock;

bool is_rank_variable(const std::string& assignment) {
  for (const char* prefix : {"RANK=",
                             "LOCAL_",
                             "WORLD_SIZE=",
                             "GROUP_",
                             "ROLE_",
                             "MASTER_",
                             "PET_",
                             "TORCHELASTIC_",
                             "OMPI_",
                             "PMI_",
                             "SLURM_",
                             "MV2_",
                             "LOCKSTEP_AGENT="}) {
    if (assignment.starts_with(prefix))
      return true;
  }
  return false;
}

std::vector<std::string> environment_of(const Command& command) {
  std::vector<std::string> assignments;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string assignment = *entry;
    const std::string name = assignment.substr(0, assignment.find('='));
    if (!is_rank_variable(assignment) && !command.environment.contains(name))
      assignments.push_back(assignment);
  }
  for (const auto& [name, value] : command.environment)
    assignments.push_back(cat(name, "=", value));
  return assignments;
}

std::vector<char*> pointers_of(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words)
    pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Running::Running(const Command& command) : start_(Clock::now()) {
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0)
    throw std::runtime_error("pipe");
  std::vector<std::string> words = command.words;
  std::vector<std::string> assignments = environment_of(command);
  const std::vector<char*> argv = pointers_of(words);
  const std::vector<char*> envp = pointers_of(assignments);
  pid_ = fork();
  if (pid_ == 0) {
    setpgid(0, 0);
    if (!command.directory.empty() && chdir(command.directory.c_str()) != 0)
      _exit(126);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(out[1], 1);
    dup2(err[1], 2);
    execvpe(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  setpgid(pid_, pid_);
  close(out[1]);
  close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

Running::Running(Running&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::exchange(other.out_, -1)),
      err_(std::exchange(other.err_, -1)),
      finished_(std::move(other.finished_)),
      start_(other.start_) {}

Running::~Running() {
  if (pid_ > 0) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (out_ >= 0)
    close(out_);
  if (err_ >= 0)
    close(err_);
}

void Running::signal(int number) const {
  if (pid_ > 0)
    kill(pid_, number);
}

void Running::pump(int milliseconds) {
  std::array<pollfd, 2> polls = {pollfd{out_, POLLIN, 0}, pollfd{err_, POLLIN, 0}};
  if (poll(polls.data(), polls.size(), milliseconds) <= 0)
    return;
  const auto take = [](const pollfd& polled, int& fd, std::string& text) {
    if (polled.revents == 0 || fd < 0)
      return;
    std::array<char, 65536> buffer{};
    const ssize_t size = read(fd, buffer.data(), buffer.size());
    if (size > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(size));
    } else {
      close(std::exchange(fd, -1));
    }
  };
  take(polls[0], out_, finished_.out);
  take(polls[1], err_, finished_.err);
}

std::string Running::printed() {
  pump(0);
  return finished_.out + finished_.err;
}

bool Running::wait_for(const std::string& text, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (Clock::now() < deadline) {
    if (contains(finished_.out, text) || contains(finished_.err, text))
      return true;
    if (out_ < 0 && err_ < 0)
      return false;
    pump(50);
  }
  return false;
}

Finished Running::wait(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  int status = 0;
  while (pid_ > 0) {
    pump(10);
    if (waitpid(pid_, &status, WNOHANG) == pid_)
      break;
    if (Clock::now() > deadline && !finished_.timed_out) {
      finished_.timed_out = true;
      kill(-pid_, SIGKILL);
    }
  }
  finished_.seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  // Grandchildren may hold the pipes open: take what is there, then leave.
  for (int quiet = 0; (out_ >= 0 || err_ >= 0) && quiet < 10;) {
    const std::size_t before = finished_.out.size() + finished_.err.size();
    pump(20);
    quiet = finished_.out.size() + finished_.err.size() == before ? quiet + 1 : 0;
  }
  pid_ = -1;
  finished_.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return finished_;
}

Finished run(const Command& command) { return Running(command).wait(command.timeout); }

std::filesystem::path program(const std::string& name) {
  const char* build = std::getenv("LOCKSTEP_BUILD_DIR");
  return std::filesystem::path(build != nullptr ? build : LOCKSTEP_DEFAULT_BUILD_DIR) / name;
}

std::vector<pid_t> processes_with(const std::string& name, const std::string& value) {
  const std::string wanted = cat(name, "=", value);
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = parse_int(entry.path().filename().string());
    if (!pid)
      continue;
    const std::string text = read_file(entry.path() / "environ");
    for (const std::string& assignment : split(text, '\0')) {
      if (assignment == wanted) {
        found.push_back(static_cast<pid_t>(*pid));
        break;
      }
    }
  }
  return found;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-test-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr)
    throw std::runtime_error(cat("mkdtemp ", pattern));
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace lockstep::test
