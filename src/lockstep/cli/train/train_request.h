// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config/config.h"

namespace CLI {
class App;
}

namespace lockstep::cli {

/// The command line of `train`, as typed. Both programs read it: the front one to check everything and to start the ranks, the
/// engine to be one.
struct TrainRequest {
  std::filesystem::path config;
  std::vector<std::string> sets;
  std::string ranks = "1";
  std::optional<std::int64_t> steps;
  bool resumes = false;
  std::vector<std::string> resume_words;  ///< none, or one: a folder or "latest"
  std::string plan;
  std::filesystem::path out;
  std::filesystem::path metrics;
  std::optional<std::int64_t> seed;
  bool reproducible = false;
  std::filesystem::path trace;
  bool print_config = false;
  std::vector<std::string> launching;    ///< given options that only the launcher of ranks heeds
  double shutdown_timeout_seconds = 60;  ///< of the launcher: a step and a save must fit in

  std::optional<std::string> resume() const;
};

void add_train_options(CLI::App& app, TrainRequest& request);

/// The words that give the same request again, after "train".
std::vector<std::string> words_of(const TrainRequest& request);

/// The configuration file with --set, --seed and --reproducible laid over it. Throws Config, Storage; Config for what is not
/// built.
Config config_of(const TrainRequest& request);

/// Everything that can be told to be wrong before a process starts, for `num_ranks` ranks: values, data files, the checkpoint
/// to resume from, the run directory. Writes nothing.
void check_train(const TrainRequest& request, const Config& config, int num_ranks);

}  // namespace lockstep::cli
