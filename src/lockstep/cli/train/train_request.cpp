// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/train/train_request.h"

#include <CLI/CLI.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/config/load.h"
#include "lockstep/config/resolve.h"
#include "lockstep/strategy/pure/plan_run.h"
#include "lockstep/train/pure/run_folder.h"

namespace lockstep::cli {
namespace {

[[noreturn]] void not_built(const char* option, const char* next) {
  throw Error({.fault = Fault::Config,
               .where = {.subject = option},
               .problem = "not built yet",
               .next = next});
}

/// CLI11 takes a number past 64 bits for another one.
std::string not_a_count(const std::string& text) {
  const auto value = parse_int(text);
  return value && *value >= 0 ? std::string()
                              : cat("'", text, "' is not a whole number from 0 to ", INT64_MAX);
}

}  // namespace

std::optional<std::string> TrainRequest::resume() const {
  if (!resumes)
    return std::nullopt;
  const std::string word = resume_words.empty() ? "" : resume_words.front();
  return word.empty() || word == "{}" ? "latest" : word;  // CLI11's empty value
}

void add_train_options(CLI::App& app, TrainRequest& request) {
  app.add_option("CONFIG", request.config, "TOML file, see docs/configuration.md")->required();
  const std::string size = "Size and length";
  const CLI::Option* ranks =
      app.add_option("-n,--nproc-per-node", request.ranks, "ranks to start here: N or auto")
          ->group(size)
          ->capture_default_str();
  app.add_option("--steps",
                 request.steps,
                 "stop after step N in all, resumed or not; 0 only saves the starting weights")
      ->group(size)
      ->check(not_a_count);
  const std::string values = "Values";
  app.add_option("--set", request.sets, "section.key=value over the file; may be given again")
      ->group(values)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--seed", request.seed, "train.seed")->group(values)->check(not_a_count);
  app.add_flag("--reproducible", request.reproducible, "the same bits for any number of ranks")
      ->group(values);
  app.add_option("--plan", request.plan, "parallel settings from a plan: auto or FILE")
      ->group(values);
  app.add_flag("--print-config", request.print_config, "print the effective configuration and stop")
      ->group(values);
  const CLI::Option* shutdown =
      app.add_option("--shutdown-timeout",
                     request.shutdown_timeout_seconds,
                     "seconds from Ctrl-C or SIGTERM to SIGKILL, for a step and a save")
          ->group(size)
          ->capture_default_str();
  const std::string files = "Files";
  app.add_option("--out", request.out, "run directory (runs/NAME of the file)")->group(files);
  const CLI::Option* resume =
      app.add_option("--resume",
                     request.resume_words,
                     "go on: latest (of --out), a run directory or a checkpoint's folder")
          ->group(files)
          ->expected(0, 1);
  app.parse_complete_callback([&request, resume, ranks, shutdown] {
    request.resumes = resume->count() > 0;
    for (const CLI::Option* option : {ranks, shutdown}) {
      if (option->count() > 0)
        request.launching.push_back(option->get_name());
    }
  });
  app.add_option("--metrics",
                 request.metrics,
                 "JSON lines, one a step (metrics.jsonl in the run directory)")
      ->group(files);
  app.add_option("--trace", request.trace, "Chrome trace of a few steps, for Perfetto")
      ->group(files);
}

std::vector<std::string> words_of(const TrainRequest& request) {
  std::vector<std::string> words = {request.config.string()};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty())
      words.insert(words.end(), {option, value});
  };
  for (const std::string& set : request.sets)
    add("--set", set);
  if (request.steps)
    add("--steps", cat(*request.steps));
  if (request.resumes)
    add("--resume", *request.resume());
  if (request.seed)
    add("--seed", cat(*request.seed));
  add("--plan", request.plan);
  add("--out", request.out.string());
  add("--metrics", request.metrics.string());
  add("--trace", request.trace.string());
  if (request.reproducible)
    words.emplace_back("--reproducible");
  if (request.print_config)
    words.emplace_back("--print-config");
  return words;
}

Config config_of(const TrainRequest& request) {
  if (!request.plan.empty())
    not_built("--plan", "Set [parallel] in the configuration");
  if (request.reproducible)
    not_built("--reproducible",
              "Leave it out; the same number of ranks gives the same bits as it is");
  if (request.steps && *request.steps < 0) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = "--steps"},
                 .problem = "a number of steps cannot be negative",
                 .found = cat(*request.steps),
                 .next = "Give a number from 0"});
  }
  Config config = load_config(request.config, request.sets);
  if (request.seed)
    config.train.seed = *request.seed;
  return config;
}

void check_train(const TrainRequest& request, const Config& config, int num_ranks) {
  const Resolved resolved = resolve(config, num_ranks);
  const ModelSpec spec = strategy::model_of(resolved.config);
  strategy::check_groups(resolved.config, spec);
  const strategy::RunData data = strategy::open_data(resolved.config, spec);
  const DistributedSampler sampler(strategy::train_sampling(resolved.config, data.train.size()),
                                   strategy::dealing_of(resolved, 0));
  const train::RunPlaces places = train::places_of(request.config, request.out, request.resume());
  strategy::horizon_of(resolved, strategy::steps_left_in(sampler), request.steps);
  train::check_out(places);
  train::check_files(places, request.metrics, request.trace);
}

}  // namespace lockstep::cli
