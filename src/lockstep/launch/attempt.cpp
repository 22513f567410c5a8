// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/attempt.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <sstream>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"
#include "lockstep/launch/rank_environment.h"

namespace lockstep::launch {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kGrace{1000};      // for ranks that joined to fail by themselves
constexpr milliseconds kAfterKill{3000};  // until processes that SIGKILL does not end are given up
constexpr milliseconds kLook{20};
constexpr milliseconds kSameStop{1000};  // a second signal within it belongs to the first
constexpr milliseconds kDrain{500};  // for output that a process outside the job's reach holds open

// A Python program's exception, as torch.distributed.elastic's @record leaves it.
std::string error_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file)
    return {};
  const nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("message"))
    return {};
  const nlohmann::json& message = json["message"];
  if (message.is_string())
    return message.get<std::string>();
  return message.is_object() ? message.value("message", "") : "";
}

std::string text_in(const nlohmann::json& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string ranks_text(const std::vector<int>& ranks) {
  return cat(ranks.size() == 1 ? "rank " : "ranks ", join(std::span<const int>(ranks), " "));
}

}  // namespace

Attempt::Attempt(Job& job, int number) : job_(job), number_(number) {
  for (int local = 0; local < job.options.local_ranks; ++local)
    workers_.push_back(prepare(local));
}

Attempt::~Attempt() {
  // Only an exception leaves workers running; the guard ends what they started.
  if (!any_running())
    return;
  kill_all(processes());
  for (Worker& worker : workers_) {
    if (worker.pid > 0)
      waitpid(worker.pid, nullptr, WNOHANG);
  }
}

Attempt::Worker Attempt::prepare(int local_rank) const {
  const Options& options = job_.options;
  const int rank = rank_of(options, local_rank);
  const bool bare = options.terminal == Terminal::RankZero && local_rank == 0;
  const std::string prefix = bare ? std::string() : cat("[", rank, "] ");
  const auto shown = [&](Streams stream) {
    return !has(options.redirects.of(local_rank), stream) ||
           has(options.tee.of(local_rank), stream);
  };
  Worker worker{
      .end = {.rank = rank, .local_rank = local_rank},
      .line = std::make_unique<RankLine>(cat("lockstep-", job_.id, "-", number_, "-", rank)),
      .out = RankStream({Console::Stream::Out, prefix, shown(Streams::Out), 5}),
      .err = RankStream({Console::Stream::Err, prefix, shown(Streams::Err), 20}),
      .error_file = job_.folder / cat("error-", number_, "-", rank, ".json")};
  if (!options.log_dir.empty()) {
    const std::filesystem::path path = options.log_dir /
                                       cat("attempt-", options.first_attempt + number_) /
                                       cat("rank-", rank, ".log");
    worker.file =
        options.log_once_there.empty() ? LogFile(path) : LogFile(path, options.log_once_there);
  }
  return worker;
}

void Attempt::start() {
  for (Worker& worker : workers_)
    start_worker(worker);
}

void Attempt::start_worker(Worker& worker) {
  const Options& options = job_.options;
  const int rank = worker.end.rank;
  const bool bare = options.terminal == Terminal::RankZero && worker.end.local_rank == 0;
  // A progress bar needs the terminal itself.
  const Fd out = bare && isatty(1) != 0 ? Fd() : worker.out.open();
  const bool own_err = bare && isatty(2) != 0 && options.log_dir.empty();
  const Fd err = own_err ? Fd() : worker.err.open();
  worker.pid = start_process(
      {.words = options.program,
       .environment = rank_environment(options,
                                       {.local_rank = worker.end.local_rank,
                                        .attempt = number_,
                                        .port = job_.port,
                                        .agent = cat("lockstep-", job_.id, "-", number_, "-", rank),
                                        .job = job_.path,
                                        .error_file = worker.error_file.string()},
                                       job_.inherited),
       .in = rank == 0 ? 0 : -1,
       .out = out.open() ? out.get() : 1,
       .err = err.open() ? err.get() : 2,
       .guard = job_.guard->pipe()});
  worker.running = true;
  worker.end.pid = worker.pid;
}

bool Attempt::any_running() const {
  return std::any_of(
      workers_.begin(), workers_.end(), [](const Worker& worker) { return worker.running; });
}

JobProcesses Attempt::processes() const {
  JobProcesses processes{.id = job_.id, .groups = {}};
  for (const Worker& worker : workers_) {
    if (worker.pid > 0)
      processes.groups.push_back(worker.pid);
  }
  return processes;
}

AttemptResult Attempt::run() {
  next_ = Clock::time_point::max();
  while (stage_ != Stage::Done) {
    wait_for_events();
    take_signals();
    for (Worker& worker : workers_)
      take_messages(worker);
    take_exits();
    if (job_.store != nullptr && job_.store->somebody_waits())
      job_.store->start(*job_.guard);
    take_output();
    job_.console.pump();
    take_loss_of_output();
    advance();
  }
  drain();
  return result();
}

void Attempt::wait_for_events() {
  std::vector<pollfd> polls = {{job_.signals, POLLIN, 0}};
  job_.console.add_polls(polls);
  if (job_.store != nullptr)
    job_.store->add_polls(polls);
  const bool full = job_.console.full();
  for (const Worker& worker : workers_) {
    worker.line->add_polls(polls);
    if (full)
      continue;
    worker.out.add_polls(polls);
    worker.err.add_polls(polls);
  }
  int wait_ms = 1000;
  if (next_ != Clock::time_point::max()) {
    const auto left = std::chrono::ceil<milliseconds>(next_ - Clock::now()).count();
    wait_ms = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
  }
  poll(polls.data(), polls.size(), wait_ms);
}

void Attempt::take_signals() {
  signalfd_siginfo info{};
  while (read(job_.signals, &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD)
      continue;  // take_exits looks at every rank
    const bool again = result_.interrupt != 0;
    if (!again) {
      result_.interrupt = signal == SIGUSR1 ? SIGTERM : signal;
      result_.failed_before_interrupt = stage_ != Stage::Running;
      interrupted_at_ = Clock::now();
    }
    if (stage_ == Stage::Running || (!again && stage_ == Stage::Grace)) {
      job_.console.say(cat(
          "lockstep: ", signal_name(signal), ": stopping the ranks; a second signal kills them"));
      stop_within(stage_ == Stage::Running ? job_.options.leave_timeout
                                           : job_.options.shutdown_timeout);
      stop_ranks();
    } else if (again && (signal == SIGINT || Clock::now() >= interrupted_at_ + kSameStop)) {
      // timeout, scancel and the like signal a process and its group: that is one wish, not two.
      killed_by_wish_ = true;
      kill_ranks();
    }
  }
}

void Attempt::take_messages(Worker& worker) {
  worker.line->pump([&](const nlohmann::json& message) {
    const std::string event = text_in(message, "event");
    if (event == "joined") {
      worker.end.joined = true;
      worker.end.finished = false;
    } else if (event == "phase") {
      worker.end.phase = text_in(message, "phase");
    } else if (event == "finished") {
      worker.end.finished = true;
    } else if (event == "failed" && worker.end.fault.empty()) {
      worker.end.fault = text_in(message, "fault");
      worker.end.error = text_in(message, "error");
      worker.end.last_operation = text_in(message, "last_operation");
      worker.end.consequence = message.value("consequence", false);
      worker.end.order = order_++;
      failure_seen(worker);
    }
  });
}

void Attempt::take_exits() {
  take_store_exit();
  for (Worker& worker : workers_) {
    siginfo_t info{};
    // The zombie stays until the attempt ends, so that nobody else can get its number while its group is still signalled.
    if (!worker.running ||
        waitid(P_PID, static_cast<id_t>(worker.pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
      continue;
    if (info.si_pid == 0)
      continue;
    worker.running = false;
    take_messages(worker);
    if (info.si_code == CLD_EXITED) {
      worker.end.status = info.si_status;
    } else {
      worker.end.signal = info.si_status;
    }
    if (worker.end.error.empty())
      worker.end.error = error_in(worker.error_file);
    if (worker.end.fault.empty())
      worker.end.order = order_++;
    if (failed(worker.end))
      failure_seen(worker);
  }
}

// Before the ranks' exits and while they are waited for: what they say of a store that is gone is a consequence.
void Attempt::take_store_exit() {
  if (job_.store == nullptr || !result_.store_problem.empty() ||
      (stage_ != Stage::Running && stage_ != Stage::Grace))
    return;
  result_.store_problem = job_.store->problem();
  if (result_.store_problem.empty())
    return;
  stop_within(job_.options.shutdown_timeout);
  stop_ranks();
}

void Attempt::failure_seen(const Worker& worker) {
  if (stage_ == Stage::Stopping && worker.end.joined && !worker.end.finished &&
      Clock::now() + job_.options.shutdown_timeout < stop_by_) {
    stop_within(job_.options.shutdown_timeout);  // the others have nobody to save with
    next_ = stop_by_;
  }
  if (stage_ != Stage::Running)
    return;
  stop_within(job_.options.shutdown_timeout);
  const bool others_joined =
      std::any_of(workers_.begin(), workers_.end(), [&](const Worker& other) {
        return &other != &worker && other.running && other.end.joined;
      });
  if (others_joined || worker.running) {
    stage_ = Stage::Grace;
    next_ = std::min(Clock::now() + kGrace, stop_by_);
  } else {
    stop_ranks();
  }
}

void Attempt::take_output() {
  if (job_.console.full())
    return;
  for (Worker& worker : workers_) {
    worker.out.pump(job_.console, worker.file);
    worker.err.pump(job_.console, worker.file);
    worker.file.flush_held();
    if (const std::string problem = worker.file.take_problem(); !problem.empty()) {
      job_.console.say(cat("lockstep: a log file cannot be written any more: ", problem));
    }
  }
}

// A program whose reader has left ends, as by SIGPIPE; a training is worth more than its lines.
void Attempt::take_loss_of_output() {
  const int loss = job_.console.take_loss();
  if (loss == 0)
    return;
  const bool ends =
      loss == EPIPE && job_.options.terminal == Terminal::Prefixed && stage_ == Stage::Running;
  job_.console.say(cat("lockstep: standard output cannot be written any more (",
                       std::generic_category().message(loss),
                       "): ",
                       ends ? "stopping the ranks" : "what the ranks print is left out from here"));
  if (!ends)
    return;
  result_.interrupt = SIGPIPE;
  interrupted_at_ = Clock::now();
  stop_within(job_.options.shutdown_timeout);
  stop_ranks();
}

void Attempt::stop_within(milliseconds timeout) {
  stop_timeout_ = timeout;
  stop_by_ = Clock::now() + timeout;
}

void Attempt::stop_ranks() {
  stage_ = Stage::Stopping;
  next_ = stop_by_;
  for (Worker& worker : workers_) {
    if (!worker.running)
      continue;
    worker.end.stopped = true;
    kill(-worker.pid, SIGTERM);
  }
}

void Attempt::kill_ranks() {
  std::vector<int> late;
  for (Worker& worker : workers_) {
    if (!worker.running)
      continue;
    worker.end.stopped = true;
    late.push_back(worker.end.rank);
  }
  if (!late.empty() && stage_ == Stage::Stopping) {
    job_.console.say(cat(
        "lockstep: ",
        ranks_text(late),
        " did not stop ",
        killed_by_wish_
            ? "before the second signal"
            : cat("within ", static_cast<double>(stop_timeout_.count()) / 1000, " s of SIGTERM"),
        ": killed"));
  }
  const JobProcesses job = processes();
  for (const pid_t group : job.groups)
    kill(-group, SIGKILL);
  for (const pid_t pid : living(job))
    kill(pid, SIGKILL);
  stage_ = Stage::Killing;
  next_ = Clock::now() + kAfterKill;
}

void Attempt::advance() {
  const auto now = Clock::now();
  if (stage_ != Stage::Leftovers && !any_running()) {
    const bool killing = stage_ == Stage::Killing;
    if (stage_ == Stage::Running)
      stop_within(job_.options.shutdown_timeout);
    if (killing)
      stop_by_ = now;
    stage_ = Stage::Leftovers;
    next_ = now;
  }
  if (now < next_)
    return;
  if (stage_ == Stage::Grace) {
    stop_ranks();
  } else if (stage_ == Stage::Stopping) {
    kill_ranks();
  } else if (stage_ == Stage::Killing) {
    result_.unkillable = living(processes());
    stage_ = Stage::Done;
  } else if (stage_ == Stage::Leftovers) {
    look_for_leftovers();
  }
}

// Children of ranks that are gone: asked first, killed when the time is up.
void Attempt::look_for_leftovers() {
  const std::vector<pid_t> left = living(processes());
  const auto now = Clock::now();
  if (left.empty()) {
    stage_ = Stage::Done;
    return;
  }
  if (now >= stop_by_) {
    for (const pid_t pid : left)
      kill(pid, SIGKILL);
    if (now >= stop_by_ + kAfterKill) {
      result_.unkillable = left;
      stage_ = Stage::Done;
    }
  } else if (!std::exchange(leftovers_asked_, true)) {
    for (const pid_t pid : left)
      kill(pid, SIGTERM);
  }
  next_ = now + kLook;
}

void Attempt::drain() {
  const auto until = Clock::now() + kDrain;
  const auto open = [&] {
    return std::any_of(workers_.begin(), workers_.end(), [](const Worker& worker) {
      return worker.out.open_still() || worker.err.open_still();
    });
  };
  while (open() && Clock::now() < until) {
    std::vector<pollfd> polls;
    for (Worker& worker : workers_) {
      worker.out.add_polls(polls);
      worker.err.add_polls(polls);
    }
    poll(polls.data(), polls.size(), static_cast<int>(kLook.count()));
    for (Worker& worker : workers_) {
      worker.out.pump(job_.console, worker.file);
      worker.err.pump(job_.console, worker.file);
    }
    job_.console.pump();
  }
  for (Worker& worker : workers_) {
    worker.out.finish(job_.console, worker.file);
    worker.err.finish(job_.console, worker.file);
    worker.file.flush_held();
  }
}

AttemptResult Attempt::result() {
  for (Worker& worker : workers_) {
    worker.end.error_lines = worker.err.last_lines();
    worker.end.output_lines = worker.out.last_lines();
    waitpid(worker.pid, nullptr, WNOHANG);
    worker.running = false;
    result_.ends.push_back(worker.end);
  }
  return std::move(result_);
}

}  // namespace lockstep::launch
