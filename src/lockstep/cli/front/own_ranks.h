// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::cli {

/// A command line of the engine that starts ranks of its own: how many, and what each of them gets.
struct OwnRanks {
  std::string ranks = "1";             ///< N, auto, cpu, gpu
  std::vector<std::string> arguments;  ///< without -n
  std::optional<std::string> out;      ///< --out: the run directory
  bool only_tells = false;             ///< --help, --print-config: one process, no ranks
};

/// Splits "train CONFIG -n 4 --out DIR ...". Options that it does not know are the engine's to judge.
/// Throws Usage where -n lacks its value.
OwnRanks split_own_ranks(std::span<const std::string> arguments);

/// Whether a launcher started this process: any variable that gives it a rank is set.
bool under_launcher();

/// Runs a command of the engine. `train` outside a launcher starts its own ranks, rank 0 with the
/// terminal; every other command, and `train` as one rank of a launcher, becomes the engine.
int run_engine_command(std::span<const std::string> arguments);

}  // namespace lockstep::cli
