// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/options.h"

namespace lockstep::launch {

/// The words of a command line of `run`, as typed; empty where not given. Options are made of them by `options_of`.
struct Request {
  std::string ranks = "1";  ///< N, auto, cpu, gpu
  std::string nodes = "1";  ///< N, or N:N
  int node_rank = 0;
  std::string address;
  std::string port;
  std::string endpoint;
  std::string rendezvous_backend;
  std::string rendezvous_conf;
  std::string run_id = "none";
  bool standalone = false;
  int max_restarts = 0;
  double shutdown_timeout_seconds = 8;
  std::string log_dir;
  std::string redirects;
  std::string tee;
  std::string env_file;
  std::string role = "default";
  bool module = false;     ///< the program is a Python module
  bool no_python = false;  ///< a .py file is executed itself
  std::vector<std::string> program;
};

/// What the machine has; a parameter so that decisions are tested without it.
struct Machine {
  int physical_cores = 1;
  int devices = 0;
  std::optional<std::string> python;  ///< PYTHON_EXEC
  std::optional<int> omp_threads;     ///< OMP_NUM_THREADS
};
Machine this_machine();

/// Checks everything that can be checked before a socket or a process is touched; reads the environment file.
/// Throws Usage or Config that names the flag and what to give instead.
Options options_of(const Request& request, const Machine& machine);

/// Number of ranks of this node: N, or by what the machine has. auto: one a device, without devices one a physical core.
int ranks_of(const std::string& text, const Machine& machine);

/// The words that start the program: Python is put before .py files and modules, as torchrun does.
std::vector<std::string> program_words(const Request& request, const Machine& machine);

}  // namespace lockstep::launch
