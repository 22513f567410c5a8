// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <memory>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/common/engine.h"
#include "lockstep/cli/front/commands.h"
#include "lockstep/cli/train/train_request.h"
#include "lockstep/comm/pure/rank_identity.h"
#include "lockstep/config/load.h"
#include "lockstep/config/resolve.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/launch/old_logs.h"
#include "lockstep/launch/request.h"
#include "lockstep/train/pure/run_folder.h"

namespace lockstep::cli {
namespace {

/// Under another launcher this process is a rank; the engine takes its place.
int be_a_rank(const TrainRequest& request, const RankIdentity& identity) {
  if (!request.launching.empty() && identity.rank == 0) {
    log(LogLevel::Warning,
        cat(join(request.launching, ", "),
            " has no effect: another launcher (",
            identity.source,
            ") has started the ",
            identity.size,
            " ranks"));
  }
  std::vector<std::string> words = words_of(request);
  words.insert(words.begin(), "train");
  return exec_engine(words);
}

int start_ranks(const TrainRequest& request) {
  launch::Request job;
  job.ranks = request.ranks;
  job.shutdown_timeout_seconds = request.shutdown_timeout_seconds;
  job.program = {engine_program().string(), "train"};
  const auto words = words_of(request);
  job.program.insert(job.program.end(), words.begin(), words.end());
  launch::Options options = launch::options_of(job, launch::this_machine());
  // After a failure there is nothing to save.
  options.shutdown_timeout = std::min(options.shutdown_timeout, launch::Options{}.shutdown_timeout);

  const Config config = config_of(request);
  if (request.print_config) {
    std::cout << print_config(resolve(config, options.local_ranks).config);
    return 0;
  }
  check_train(request, config, options.local_ranks);
  options.engine = engine_program();
  options.terminal = launch::Terminal::RankZero;
  const std::filesystem::path out =
      train::places_of(request.config, request.out, request.resume()).out;
  options.failure_file = out / "failure.json";
  options.log_dir = out / "logs";
  options.log_once_there = out;  // rank 0 makes it when nothing was refused
  options.first_attempt = launch::next_attempt(options.log_dir);  // resumed: earlier logs stay
  return launch::launch(options);
}

}  // namespace

std::function<int()> make_train(CLI::App& app) {
  const auto request = std::make_shared<TrainRequest>();
  add_train_options(app, *request);
  return [request] {
    const RankIdentity identity = identify_rank(process_variables());
    const bool is_rank = identity.source != RankIdentity{}.source;
    return is_rank ? be_a_rank(*request, identity) : start_ranks(*request);
  };
}

}  // namespace lockstep::cli
