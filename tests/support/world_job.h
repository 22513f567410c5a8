// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "support/process.h"

namespace lockstep::test {

/// Ranks of the program world_loop as processes, started by hand from the environment: no launcher helps them to find out
/// what happened.
struct WorldJob {
  std::vector<std::string> arguments;
  int size = 2;
  int started = -1;  ///< ranks that are started; -1: all
  std::string address = "127.0.0.1";
};

/// A port of 127.0.0.1 that is free now, outside the range that the system hands out by itself.
int free_port();

std::vector<Running> start(const WorldJob& job);
std::vector<Finished> wait_all(std::vector<Running>& ranks, std::chrono::milliseconds timeout);
std::vector<Finished> run_job(const WorldJob& job,
                              std::chrono::milliseconds timeout = std::chrono::seconds(40));

}  // namespace lockstep::test
