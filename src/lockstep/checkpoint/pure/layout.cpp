// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/layout.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <stdio.h>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-";
constexpr const char* kManifest = "manifest.json";

std::string padded(std::int64_t number, std::size_t width) {
  std::string digits = cat(number);
  return std::string(width - std::min(width, digits.size()), '0') + digits;
}

[[noreturn]] void refuse(const fs::path& path,
                         std::string problem,
                         const std::string& cause,
                         std::string next) {
  throw Error({.fault = Fault::Storage,
               .where = {.subject = path.string()},
               .problem = std::move(problem),
               .cause = cause,
               .next = std::move(next)});
}

void rename_path(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  fs::rename(from, to, failed);
  if (failed)
    refuse(to,
           cat("cannot be renamed from ", from.filename().string()),
           failed.message(),
           "Check the disk");
}

void point_latest_to(const RunFolder& run, std::int64_t step) {
  const fs::path moving = run.path / ".latest.moving";
  std::error_code failed;
  fs::remove(moving, failed);
  fs::create_symlink(fs::path("checkpoints") / step_name(step), moving, failed);
  if (failed)
    refuse(moving,
           "the link to the newest checkpoint cannot be made",
           failed.message(),
           "Check the disk");
  rename_path(moving, run.latest());
  sync_folder(run.path);
}

bool is_checkpoint(const fs::path& folder) { return fs::exists(folder / kManifest); }

constexpr std::string_view kReplaced = ".replaced";

/// The checkpoint of a step's folder: there, or set aside by a save that was killed between its two renames.
std::optional<fs::path> whole_folder(const fs::path& folder) {
  if (is_checkpoint(folder))
    return folder;
  const std::string name = folder.filename().string();
  const fs::path aside = folder.parent_path() / cat(".", name, kReplaced);
  return step_of(name) && is_checkpoint(aside) ? std::optional(aside) : std::nullopt;
}

}  // namespace

fs::path RunFolder::step(std::int64_t number) const { return checkpoints() / step_name(number); }
fs::path RunFolder::partial(std::int64_t number) const {
  return checkpoints() / cat(".", step_name(number), ".partial");
}
fs::path RunFolder::replaced(std::int64_t number) const {
  return checkpoints() / cat(".", step_name(number), kReplaced);
}

std::string step_name(std::int64_t step) { return cat(kStepPrefix, padded(step, 6)); }

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStepPrefix))
    return std::nullopt;
  const auto step = parse_int(name.substr(kStepPrefix.size()));
  return step && *step >= 0 && step_name(*step) == name ? step : std::nullopt;
}

std::string rank_file_name(int rank) { return cat("rank-", padded(rank, 5), ".safetensors"); }

std::vector<std::int64_t> steps_in(const RunFolder& run) {
  std::vector<std::int64_t> steps;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run.checkpoints(), none)) {
    const auto step = step_of(entry.path().filename().string());
    if (step && is_checkpoint(entry.path()))
      steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::optional<std::int64_t> latest_step(const RunFolder& run) {
  std::error_code none;
  const fs::path target = fs::read_symlink(run.latest(), none);
  if (none)
    return std::nullopt;
  const auto step = step_of(target.filename().string());
  if (!step || !whole_folder(run.step(*step))) {
    refuse(run.latest(),
           cat("points to ", target.string(), ", which is no checkpoint"),
           "",
           cat("Name one: --resume DIR with a folder of ", run.checkpoints().string()));
  }
  return step;
}

void publish(const RunFolder& run, std::int64_t step) {
  sync_folder(run.partial(step));
  if (fs::exists(run.step(step))) {
    rename_path(run.step(step),
                run.replaced(step));  // clean_left_overs puts it back if this is as far as it goes
  }
  rename_path(run.partial(step), run.step(step));
  sync_folder(run.checkpoints());
  point_latest_to(run, step);
  std::error_code ignored;
  fs::remove_all(run.replaced(step), ignored);
}

std::vector<std::string> clean_left_overs(const RunFolder& run) {
  std::vector<std::string> removed;
  std::error_code none;
  std::vector<fs::path> left_overs;
  for (const auto& entry : fs::directory_iterator(run.checkpoints(), none)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(cat(".", kStepPrefix)))
      left_overs.push_back(entry.path());
    if (step_of(name) && !is_checkpoint(entry.path()))
      left_overs.push_back(entry.path());
  }
  std::sort(left_overs.begin(), left_overs.end());
  for (const fs::path& path : left_overs) {
    const std::string name = path.filename().string();
    const auto step = step_of(path.stem().string().substr(1));
    if (name.ends_with(kReplaced) && step && is_checkpoint(path) &&
        !is_checkpoint(run.step(*step))) {
      fs::remove_all(run.step(*step), none);
      rename_path(path, run.step(*step));
      continue;
    }
    fs::remove_all(path, none);
    removed.push_back(name);
  }
  if (fs::remove(run.path / ".latest.moving", none))
    removed.emplace_back(".latest.moving");
  return removed;
}

std::vector<std::int64_t> steps_to_delete(const std::vector<std::int64_t>& ascending,
                                          std::int64_t saved,
                                          int keep,
                                          const std::set<std::int64_t>& exempt) {
  if (keep < 1) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "checkpoint.keep"},
                 .problem = "at least one checkpoint has to be kept",
                 .found = cat(keep),
                 .next = "Set checkpoint.keep to 1 or more"});
  }
  std::vector<std::int64_t> counted;  // from the first to go to the newest
  std::ranges::copy_if(ascending, std::back_inserter(counted), [&](std::int64_t step) {
    return !exempt.contains(step);
  });
  std::ranges::stable_partition(counted, [&](std::int64_t step) { return step > saved; });
  const std::size_t kept = std::min(counted.size(), static_cast<std::size_t>(keep));
  counted.resize(counted.size() - kept);
  return counted;
}

void remove_checkpoint(const RunFolder& run, std::int64_t step) {
  std::error_code failed;
  fs::remove(run.step(step) / kManifest, failed);
  fs::remove_all(run.step(step), failed);
  if (failed)
    refuse(run.step(step),
           "cannot be removed",
           failed.message(),
           "Remove it by hand, or raise checkpoint.keep");
}

bool is_set_aside(const fs::path& folder) {
  return folder.filename().string().ends_with(kReplaced);
}

fs::path put_back(const fs::path& folder) {
  if (!is_set_aside(folder) || is_checkpoint(folder))
    return folder;
  return folder.parent_path() / folder.stem().string().substr(1);
}

fs::path find_checkpoint(const fs::path& given) {
  std::error_code none;
  if (const auto folder = whole_folder(given))
    return *folder;
  if (!fs::exists(given, none))
    refuse(given,
           "there is no such folder",
           "",
           "Name a run directory or a folder checkpoints/step-N of one");
  const RunFolder run{given};
  if (const auto step = latest_step(run))
    return *whole_folder(run.step(*step));
  refuse(given,
         "holds no checkpoint: neither manifest.json nor a link `latest`",
         "",
         "Name a run directory that has saved one, or a folder checkpoints/step-N of it");
}

}  // namespace lockstep::checkpoint
