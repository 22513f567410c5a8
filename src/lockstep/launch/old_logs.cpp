// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/old_logs.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lockstep/base/text.h"

namespace lockstep::launch {

namespace {

namespace fs = std::filesystem;

/// N of PREFIX N SUFFIX.
std::optional<int> number_in(std::string_view name,
                             std::string_view prefix,
                             std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix) ||
      name.size() <= prefix.size() + suffix.size())
    return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  const auto number = parse_int(name);
  if (!number || *number < 0)
    return std::nullopt;
  return static_cast<int>(*number);
}

/// The entries of a folder that are called so, with their numbers.
std::vector<std::pair<int, fs::path>> numbered(const fs::path& folder,
                                               std::string_view prefix,
                                               std::string_view suffix) {
  std::vector<std::pair<int, fs::path>> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (const auto number = number_in(entry.path().filename().string(), prefix, suffix))
      found.emplace_back(*number, entry.path());
  }
  return found;
}

bool is_ours(const Options& options, int rank) {
  const int first = rank_of(options, 0);
  return rank >= world_size(options) || (rank >= first && rank < first + options.local_ranks);
}

}  // namespace

void remove_old_logs(const Options& options) {
  std::error_code ignored;  // what cannot be removed cannot be written either, and that is told
  if (!options.failure_file.empty())
    fs::remove(options.failure_file, ignored);
  if (options.log_dir.empty())
    return;
  for (const auto& [attempt, folder] : numbered(options.log_dir, "attempt-", "")) {
    if (attempt < options.first_attempt)
      continue;
    for (const auto& [rank, file] : numbered(folder, "rank-", ".log")) {
      if (is_ours(options, rank))
        fs::remove(file, ignored);
    }
    fs::remove(folder, ignored);  // where it is empty
  }
}

int next_attempt(const fs::path& log_dir) {
  int next = 0;
  for (const auto& [attempt, folder] : numbered(log_dir, "attempt-", ""))
    next = std::max(next, attempt + 1);
  return next;
}

}  // namespace lockstep::launch
