// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace lockstep::launch {

/// How one rank ended, and what it had said until then.
struct RankEnd {
  int rank = 0;
  int local_rank = 0;
  int pid = 0;
  int status = 0;  ///< exit status, 0 where a signal ended it
  int signal = 0;
  int order = 0;         ///< ranks that ended or told their failure before this one
  bool stopped = false;  ///< the launcher had asked it to stop before it failed

  bool joined = false;       ///< it registered as a rank, so it must announce that it is done
  bool finished = false;     ///< it did
  bool consequence = false;  ///< it says that it failed because of another rank
  std::string fault;         ///< name of the kind of its failure, where it told one
  std::string error;         ///< its own text, or a Python program's exception
  std::string phase;
  std::string last_operation;
  std::vector<std::string> error_lines;   ///< last lines of standard error
  std::vector<std::string> output_lines;  ///< last lines of standard output
};

/// A rank fails by a signal, by a status, by saying so, or by leaving with 0 after it joined and before it finished.
bool failed(const RankEnd& end);

/// "killed by SIGKILL", "exit status 3", "left with exit status 0 before it had finished".
std::string how_it_ended(const RankEnd& end);
std::string signal_name(int signal);

/// Index of the root cause: the earliest of the failures that were a rank's own, else of those that blame another rank or end
/// with the status of Peer. Ranks that the launcher had asked to stop are no cause, unless they had told their failure before.
std::optional<std::size_t> first_failure(std::span<const RankEnd> ends);

/// Ranks that joined and ended before they had finished: what they had not saved is lost.
std::vector<std::size_t> unfinished(std::span<const RankEnd> ends);

/// The text for people when a signal ended the job under such ranks.
std::string unfinished_report(std::span<const RankEnd> ends,
                              std::span<const std::size_t> unfinished,
                              int interrupt);

/// The job's status: the rank's own, 128 + signal, 1 where it left with 0.
int job_status(const RankEnd& end);

/// The text for people: the root cause with its last lines, then the others as consequences.
std::string failure_report(std::span<const RankEnd> ends,
                           std::size_t first,
                           const std::string& host,
                           int attempt);

/// The content of failure.json.
nlohmann::json failure_json(std::span<const RankEnd> ends,
                            std::size_t first,
                            const std::string& host,
                            int attempt);

/// The same where the store's process ended under the ranks, which is no rank's failure: `rank` and `pid` are null.
nlohmann::json store_failure_json(std::span<const RankEnd> ends,
                                  const std::string& problem,
                                  const std::string& host,
                                  int attempt);

}  // namespace lockstep::launch
