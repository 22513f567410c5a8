// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "lockstep/base/progress.h"
#include "lockstep/comm/world.h"
#include "lockstep/config/config.h"
#include "lockstep/train/pure/run_folder.h"

namespace lockstep::train {

struct TrainOptions {
  Config config;
  RunPlaces places;
  std::optional<std::int64_t> stop_after;  ///< the step after which the run ends, resumed or not
  std::filesystem::path metrics;           ///< empty: metrics.jsonl in the run directory
  std::filesystem::path trace;  ///< empty: none; else a Chrome trace of a few steps after warm-up
  const std::atomic<int>* signals = nullptr;  ///< above zero: stop after the step and save
  ProgressDisplay::Kind display = ProgressDisplay::Kind::Lines;
  int columns = 80;
  std::function<void(std::string_view)> print;  ///< what rank 0 has to say
};

enum class Outcome {
  Finished,  ///< every planned step was done
  Stopped,   ///< asked to by a signal; saved
};

/// Trains one run: the whole of `lockstep train` on one rank.
///
/// Contract  Every rank of `world` calls with equal options. Rank 0 writes the run directory and speaks; all write checkpoints.
/// Errors    Config, Storage: before the first step, nothing half-written. Numeric: every rank at the same step, parameters as
///           after the step before. Storage at a checkpoint: older checkpoints are untouched.
Outcome run_training(World& world, const TrainOptions& options);

}  // namespace lockstep::train
