// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/failure.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {

namespace {

constexpr std::size_t kMostShown = 16;

bool blames_another(const RankEnd& end) {
  return end.consequence || (end.signal == 0 && end.status == static_cast<int>(Fault::Peer));
}

bool is_cause(const RankEnd& end) { return failed(end) && (!end.stopped || !end.error.empty()); }

std::string place(const RankEnd& end, const std::string& host) {
  return cat(
      "rank ", end.rank, " (local rank ", end.local_rank, ", host ", host, ", pid ", end.pid, ")");
}

std::string lines_block(std::string_view title, const std::vector<std::string>& lines) {
  if (lines.empty())
    return {};
  std::string text = cat("  ", title, ":\n");
  for (const std::string& line : lines)
    text += cat("    | ", line, "\n");
  return text;
}

std::string indented(const std::string& text) {
  std::string result;
  for (const std::string& line : split(trim(text), '\n'))
    result += cat(result.empty() ? "" : "\n    ", line);
  return result;
}

std::string_view hint(const RankEnd& end) {
  switch (end.signal) {
    case SIGKILL:
      return "SIGKILL that nobody sent by hand is most often the host's memory killer: look for "
             "'Out of memory' in dmesg, "
             "and use less memory a rank or fewer ranks a host";
    case SIGBUS:
      return "SIGBUS is most often a full /dev/shm or disk under mapped memory: look at df";
    case SIGSEGV:
    case SIGABRT:
      return "the program itself crashed: its last lines below, or a debugger on its core file, "
             "tell where";
    default: return {};
  }
}

std::string consequence_line(const RankEnd& end) {
  if (!failed(end))
    return cat("rank ", end.rank, ": had ended with exit status 0");
  std::string text = cat("rank ", end.rank, " (pid ", end.pid, "): ", how_it_ended(end));
  const bool as_asked =
      end.signal == SIGTERM || end.signal == SIGKILL || end.status == 128 + SIGTERM;
  if (end.stopped && as_asked)
    text += ", stopped by the launcher";
  if (!end.error.empty())
    text += cat(": ", first_line(end.error));
  return text;
}

nlohmann::json rank_json(const RankEnd& end, const std::string& host) {
  nlohmann::json json = {
      {"rank", end.rank}, {"local_rank", end.local_rank}, {"host", host}, {"pid", end.pid}};
  json["status"] = end.signal == 0 ? nlohmann::json(end.status) : nlohmann::json(nullptr);
  json["signal"] =
      end.signal != 0 ? nlohmann::json(signal_name(end.signal)) : nlohmann::json(nullptr);
  json["fault"] = end.fault;
  json["phase"] = end.phase;
  json["last_operation"] = end.last_operation;
  json["error"] = end.error.empty() ? how_it_ended(end) : end.error;
  json["last_lines"] = end.error_lines.empty() ? end.output_lines : end.error_lines;
  return json;
}

nlohmann::json others_json(std::span<const RankEnd> ends,
                           std::size_t first,
                           const std::string& host) {
  nlohmann::json others = nlohmann::json::array();
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i == first)
      continue;
    nlohmann::json other = rank_json(ends[i], host);
    other["consequence"] = failed(ends[i]);
    other["stopped"] = ends[i].stopped;
    others.push_back(std::move(other));
  }
  return others;
}

}  // namespace

bool failed(const RankEnd& end) {
  return end.signal != 0 || end.status != 0 || (!end.fault.empty() && !end.finished) ||
         (end.joined && !end.finished);
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? cat("SIG", name) : cat("signal ", signal);
}

std::string how_it_ended(const RankEnd& end) {
  if (end.signal != 0)
    return cat("killed by ", signal_name(end.signal));
  if (end.status == 0 && failed(end))
    return "left with exit status 0 before it had finished";
  return cat("exit status ", end.status);
}

std::optional<std::size_t> first_failure(std::span<const RankEnd> ends) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!is_cause(ends[i]))
      continue;
    if (!first) {
      first = i;
      continue;
    }
    const RankEnd& best = ends[*first];
    const bool better_kind = !blames_another(ends[i]) && blames_another(best);
    const bool same_kind = blames_another(ends[i]) == blames_another(best);
    if (better_kind || (same_kind && ends[i].order < best.order))
      first = i;
  }
  return first;
}

std::vector<std::size_t> unfinished(std::span<const RankEnd> ends) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (ends[i].joined && !ends[i].finished)
      found.push_back(i);
  }
  return found;
}

std::string unfinished_report(std::span<const RankEnd> ends,
                              std::span<const std::size_t> unfinished,
                              int interrupt) {
  std::string text = cat("lockstep: ",
                         signal_name(interrupt),
                         " ended the job before it had finished; what these ranks had not saved is "
                         "lost:\n");
  const std::size_t shown = std::min(unfinished.size(), kMostShown);
  for (const std::size_t i : unfinished.first(shown)) {
    const RankEnd& end = ends[i];
    text += cat("    rank ", end.rank, " (pid ", end.pid, "): ", how_it_ended(end));
    text += cat(end.phase.empty() ? "" : ", in phase ", end.phase);
    text += cat(end.error.empty() ? "" : ": ", first_line(end.error), "\n");
  }
  if (shown < unfinished.size())
    text += cat("    and ", unfinished.size() - shown, " more\n");
  return text;
}

int job_status(const RankEnd& end) {
  if (end.signal != 0)
    return 128 + end.signal;
  return end.status != 0 ? end.status : 1;
}

std::string failure_report(std::span<const RankEnd> ends,
                           std::size_t first,
                           const std::string& host,
                           int attempt) {
  const RankEnd& root = ends[first];
  std::string text = cat("lockstep: the job failed in attempt ",
                         attempt,
                         ". First failure: ",
                         place(root, host),
                         ": ",
                         how_it_ended(root),
                         "\n");
  if (!root.phase.empty())
    text += cat("  phase: ", root.phase, "\n");
  if (!root.last_operation.empty())
    text += cat("  last operation: ", root.last_operation, "\n");
  if (!root.error.empty())
    text += cat("  error: ", indented(root.error), "\n");
  if (!hint(root).empty())
    text += cat("  hint: ", hint(root), "\n");
  text += lines_block("last lines of its error output", root.error_lines);
  text += lines_block("last lines of its output", root.output_lines);
  if (ends.size() < 2)
    return text;
  text += "  the other ranks, as consequences:\n";
  std::size_t shown = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i == first)
      continue;
    if (++shown > kMostShown) {
      text += cat("    and ", ends.size() - 1 - kMostShown, " more\n");
      break;
    }
    text += cat("    ", consequence_line(ends[i]), "\n");
  }
  return text;
}

nlohmann::json failure_json(std::span<const RankEnd> ends,
                            std::size_t first,
                            const std::string& host,
                            int attempt) {
  return {{"attempt", attempt},
          {"first_failure", rank_json(ends[first], host)},
          {"others", others_json(ends, first, host)}};
}

nlohmann::json store_failure_json(std::span<const RankEnd> ends,
                                  const std::string& problem,
                                  const std::string& host,
                                  int attempt) {
  return {{"attempt", attempt},
          {"first_failure",
           {{"rank", nullptr},
            {"local_rank", nullptr},
            {"host", host},
            {"pid", nullptr},
            {"status", nullptr},
            {"signal", nullptr},
            {"fault", "Environment"},
            {"phase", "store"},
            {"last_operation", ""},
            {"error", cat("the store process ended under the ranks: ", problem)},
            {"last_lines", nlohmann::json::array()}}},
          {"others", others_json(ends, ends.size(), host)}};
}

}  // namespace lockstep::launch
