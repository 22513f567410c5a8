// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/launch/env_file.h"
#include "lockstep/launch/redirect.h"

namespace lockstep::launch {

/// Who may write to the terminal itself. `Prefixed`: every rank's lines carry "[N] ". `RankZero`: rank 0 writes as it is, to the
/// terminal when there is one, so that it can draw a progress bar; the other ranks' lines are prefixed.
enum class Terminal { Prefixed, RankZero };

/// A job on this node: what to start, how many times, where the ranks meet.
struct Options {
  std::vector<std::string> program;  ///< resolved words: the first is a path

  int nodes = 1;
  int node_rank = 0;
  int local_ranks = 1;

  std::string address = "127.0.0.1";  ///< as typed; the store listens there and nowhere else
  std::optional<int> port;            ///< none: a free one (one node only)
  std::string run_id = "none";
  std::string role = "default";
  std::optional<std::chrono::seconds> rendezvous_timeout;  ///< handed to the ranks

  int max_restarts = 0;  ///< of the whole group
  std::chrono::milliseconds shutdown_timeout =
      std::chrono::seconds(8);  ///< from a failure to SIGKILL
  std::chrono::milliseconds leave_timeout =
      std::chrono::seconds(8);  ///< from a signal to the launcher to SIGKILL: a step and a save

  std::filesystem::path log_dir;  ///< empty: no files
  int first_attempt = 0;  ///< number of the first attempt, in names of log folders and in reports
  /// Log files are made once this folder is there, and not at all where it never is; empty: at the start.
  std::filesystem::path log_once_there;
  StreamChoice redirects;  ///< not to the terminal
  StreamChoice tee;        ///< to the terminal all the same
  Terminal terminal = Terminal::Prefixed;
  std::filesystem::path failure_file;  ///< empty: none is written

  std::vector<Assignment> environment;  ///< over the launcher's own; under the rank variables
  int threads = 1;                      ///< OMP_NUM_THREADS, unless it is set
  std::filesystem::path engine;         ///< serves the store
};

inline int world_size(const Options& options) { return options.nodes * options.local_ranks; }
inline int rank_of(const Options& options, int local_rank) {
  return options.node_rank * options.local_ranks + local_rank;
}

}  // namespace lockstep::launch
