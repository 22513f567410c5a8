// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "lockstep/base/torch/counting_allocator.h"
#include "lockstep/cli/engine/commands.h"
#include "lockstep/cli/train/train_request.h"
#include "lockstep/config/load.h"
#include "lockstep/config/resolve.h"
#include "lockstep/train/trainer.h"

namespace lockstep::cli {
namespace {

constexpr int kStoppedStatus = 128 + SIGTERM;

constexpr std::int64_t kSameStopMs = 1000;

// A signal handler can reach nothing but a global.
std::atomic<int> stop_signals{0};
std::atomic<std::int64_t> first_stop_ms{0};

// systemctl stop and scancel signal every process, and the launcher forwards what it got: what comes within a second is the same
// wish to save and leave. A later signal ends the rank at once.
extern "C" void note_stop_signal(int) {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const std::int64_t now_ms = std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1000000 + 1;
  std::int64_t first_ms = 0;
  if (!first_stop_ms.compare_exchange_strong(first_ms, now_ms) && now_ms - first_ms >= kSameStopMs)
    _exit(kStoppedStatus);
  stop_signals.store(1);
}

void take_stop_signals() {
  struct sigaction action{};
  action.sa_handler = note_stop_signal;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

WorldOptions world_options(const Config& config) {
  return {.timeout = std::chrono::milliseconds(
              static_cast<std::int64_t>(config.comm.timeout_seconds * 1000)),
          .backend = config.comm.backend};
}

int train_as(World& world, const TrainRequest& request, const Config& config) {
  if (request.print_config) {
    if (world.rank() == GlobalRank{0})
      print(print_config(resolve(config, world.size()).config));
    return 0;
  }
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const auto outcome = train::run_training(
      world,
      {.config = config,
       .places = train::places_of(request.config, request.out, request.resume()),
       .stop_after = request.steps,
       .metrics = request.metrics,
       .trace = request.trace,
       .signals = &stop_signals,
       .display = terminal ? ProgressDisplay::Kind::Bar : ProgressDisplay::Kind::Lines,
       .columns = terminal_columns(),
       .print = print});
  return outcome == train::Outcome::Stopped ? kStoppedStatus : 0;
}

int run_train(const TrainRequest& request) {
  install_counting_allocator();
  take_stop_signals();
  const Config config = config_of(request);
  World world = World::from_environment(world_options(config));
  try {
    const int status = train_as(world, request, config);
    world.finish();
    return status;
  } catch (const std::exception& error) {
    world.fail(error);
    throw;
  }
}

}  // namespace

std::function<int()> make_train(CLI::App& app) {
  const auto request = std::make_shared<TrainRequest>();
  add_train_options(app, *request);
  return [request] { return run_train(*request); };
}

}  // namespace lockstep::cli
