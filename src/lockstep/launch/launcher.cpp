// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/launcher.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <random>
#include <sys/signalfd.h>
#include <system_error>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/attempt.h"
#include "lockstep/launch/endpoint.h"
#include "lockstep/launch/listen.h"
#include "lockstep/launch/old_logs.h"

namespace lockstep::launch {

namespace {

std::string random_id() {
  std::random_device device;
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string id;
  for (int i = 0; i < 12; ++i)
    id.push_back(kLetters[device() % kLetters.size()]);
  return id;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// A descriptor that stands for standard input, output or error must not become a pipe of ours.
void fill_standard_descriptors() {
  for (int fd = 0; fd < 3; ++fd) {
    if (fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int filled = open("/dev/null", O_RDWR);
  }
}

Fd block_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGCHLD})
    sigaddset(&set, signal);
  struct sigaction hang_up{};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN)
    sigaddset(&set, SIGHUP);  // nohup: goes on when the terminal closes
  sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);
  return Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// A job inside a job has its folder in the outer one's: when the outer launcher is killed, the inner guard
// is killed too, and the outer guard removes both.
std::filesystem::path make_folder(const std::string& job_path) {
  std::error_code code;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path(code) / cat("lockstep-", job_path);
  if (!code)
    std::filesystem::create_directories(folder, code);
  if (!code)
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, code);
  if (!code)
    return folder;
  throw Error({.fault = Fault::Storage,
               .where = {.subject = folder.string()},
               .problem = "the folder for the ranks' error files cannot be made",
               .cause = code.message(),
               .next = "Set TMPDIR to a folder that can be written"});
}

void remove_folder(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

void write_failure_file(const Options& options, const nlohmann::json& json, Console& console) {
  if (options.failure_file.empty())
    return;
  const std::filesystem::path beside = options.failure_file.string() + ".partial";
  std::error_code code;
  if (!std::filesystem::is_directory(beside.parent_path(), code))
    return;  // the job failed before it made its folder; the report was said above
  std::ofstream file(beside);
  file << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  file.close();
  if (file)
    std::filesystem::rename(beside, options.failure_file, code);
  if (!file || code)
    console.say(cat("lockstep: ", options.failure_file.string(), " cannot be written"));
}

std::string unkillable_text(const std::vector<pid_t>& pids) {
  std::vector<std::string> texts;
  for (const pid_t pid : pids)
    texts.push_back(cat(pid));
  return cat(
      "lockstep: these processes do not end even by SIGKILL (a device or file system holds them): ",
      cut_list(texts, 20));
}

int tell_failure(Job& job, const AttemptResult& result, std::size_t first, int attempt) {
  job.console.say(failure_report(result.ends, first, host_name(), attempt));
  write_failure_file(
      job.options, failure_json(result.ends, first, host_name(), attempt), job.console);
  return job_status(result.ends[first]);
}

int status_of_unfinished(const AttemptResult& result, const std::vector<std::size_t>& lost) {
  for (const std::size_t rank : lost) {
    const RankEnd& end = result.ends[rank];
    if (end.signal != SIGTERM && end.status != 128 + SIGTERM && !end.consequence)
      return job_status(end);
  }
  return 128 + result.interrupt;
}

// The status after a signal: 128 + its number when the ranks left as asked. What was lost must not look like that.
int judge_interrupted(Job& job, const AttemptResult& result, int attempt) {
  const auto first = first_failure(result.ends);
  const bool told = first && !result.ends[*first].fault.empty() && !result.ends[*first].consequence;
  int status = 128 + result.interrupt;
  if (first && (told || result.failed_before_interrupt)) {
    status = tell_failure(job, result, *first, attempt);
  } else if (const auto lost = unfinished(result.ends); !lost.empty()) {
    job.console.say(unfinished_report(result.ends, lost, result.interrupt));
    write_failure_file(
        job.options, failure_json(result.ends, lost.front(), host_name(), attempt), job.console);
    status = status_of_unfinished(result, lost);
  }
  // Ctrl-C stays Ctrl-C, unless the job had failed before it came.
  const bool only_interrupted = result.interrupt == SIGINT && !result.failed_before_interrupt;
  return only_interrupted ? 128 + SIGINT : status;
}

// Tells the first failure. Returns the status of the job; 0 when there was none.
int judge(Job& job, const AttemptResult& result, int attempt) {
  if (!result.unkillable.empty())
    job.console.say(unkillable_text(result.unkillable));
  if (result.interrupt != 0)
    return judge_interrupted(job, result, attempt);
  if (!result.store_problem.empty()) {
    job.console.say(cat("lockstep: the store process ended under the ranks: ",
                        result.store_problem,
                        "\n  Check that lockstep-engine runs: lockstep-engine --version"));
    write_failure_file(job.options,
                       store_failure_json(result.ends, result.store_problem, host_name(), attempt),
                       job.console);
    return static_cast<int>(Fault::Environment);
  }
  const auto first = first_failure(result.ends);
  return first ? tell_failure(job, result, *first, attempt) : 0;
}

int run_attempts(Job& job) {
  const Options& options = job.options;
  for (int number = 0;; ++number) {
    Attempt attempt(job, number);
    attempt.start();
    // Ranks come first: the store may take its time. A single rank may never ask for it.
    if (job.store != nullptr && !job.store->started() && world_size(options) > 1)
      job.store->start(*job.guard);
    const AttemptResult result = attempt.run();
    const int status = judge(job, result, options.first_attempt + number);
    if (status == 0 || result.interrupt != 0 || !result.store_problem.empty() ||
        number == options.max_restarts)
      return status;
    job.console.say(cat("lockstep: restarting all ranks of this node: attempt ",
                        options.first_attempt + number + 1,
                        " of at most ",
                        options.first_attempt + options.max_restarts));
  }
}

// The job's status, or where it went well and its output got lost, the status of that.
int finish_output(Job& job, int status) {
  job.console.finish(status == 0 ? Console::Patience::ToTheEnd : Console::Patience::Briefly,
                     job.options.shutdown_timeout);
  if (const int loss = job.console.take_loss(); loss != 0 && loss != EPIPE) {
    job.console.say(cat("lockstep: standard output cannot be written: ",
                        std::generic_category().message(loss)));
    job.console.pump();
  }
  const int loss = job.console.loss();
  if (status != 0 || loss == 0 || job.options.terminal == Terminal::RankZero)
    return status;
  return loss == EPIPE ? 128 + SIGPIPE : static_cast<int>(Fault::Storage);
}

}  // namespace

int launch(const Options& options) {
  fill_standard_descriptors();
  Listener listener;
  listener.port = options.port.value_or(0);
  if (options.node_rank == 0) {
    listener = listen_on(options.address, options.port);
    log(LogLevel::Info,
        cat("the store listens on ", endpoint_text(options.address, listener.port)));
  }
  remove_old_logs(options);
  const Fd signals = block_signals();
  Job job{.options = options,
          .id = random_id(),
          .inherited = own_environment(),
          .port = listener.port,
          .signals = signals.get()};
  const auto above = env("LOCKSTEP_JOB");
  job.path = above ? cat(*above, "/", job.id) : job.id;
  job.folder = make_folder(job.path);
  Guard guard(job.id, job.folder);
  job.guard = &guard;
  std::optional<StoreProcess> store;
  if (listener.fd.open()) {
    store.emplace(options.engine, std::move(listener.fd), job.inherited);
    job.store = &*store;
  }
  const int status = run_attempts(job);
  store.reset();
  guard.dismiss();
  remove_folder(job.folder);
  sigset_t set;
  sigemptyset(&set);
  sigprocmask(SIG_SETMASK, &set, nullptr);
  return finish_output(job, status);
}

}  // namespace lockstep::launch
