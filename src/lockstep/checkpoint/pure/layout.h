// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// Where the checkpoints of a run directory lie.
///
///   RUN/checkpoints/step-000020/{rank-00000.safetensors, ..., index.json, manifest.json}
///   RUN/latest -> checkpoints/step-000020          moved only when that checkpoint is whole and on
///   disk RUN/checkpoints/.step-000040.partial           being written; removed at the next start
///   after a crash
struct RunFolder {
  std::filesystem::path path;

  std::filesystem::path checkpoints() const { return path / "checkpoints"; }
  std::filesystem::path step(std::int64_t step) const;
  std::filesystem::path partial(std::int64_t step) const;  ///< of a checkpoint under way
  std::filesystem::path replaced(
      std::int64_t step) const;  ///< of one that a newer of the same step takes the place of
  std::filesystem::path latest() const { return path / "latest"; }
};

std::string step_name(std::int64_t step);
std::optional<std::int64_t> step_of(std::string_view name);
std::string rank_file_name(int rank);

/// Steps whose folder has a manifest, ascending. Nothing where the folder does not exist.
std::vector<std::int64_t> steps_in(const RunFolder& run);

/// The step that `latest` points to; none where there is no such link. Throws Storage for a link to
/// elsewhere.
std::optional<std::int64_t> latest_step(const RunFolder& run);

/// Makes the written partial folder the checkpoint of its step, then points `latest` to it; each is
/// one atomic rename followed by fsync, so that a crash at any moment leaves either the old or the
/// new state. Throws Storage.
void publish(const RunFolder& run, std::int64_t step);

/// Removes what a crash left: partial folders and half-moved links. A checkpoint that was set aside
/// while a newer one of its step took its place is put back when that did not happen. One rank
/// calls it, before the first save. Returns what it removed.
std::vector<std::string> clean_left_overs(const RunFolder& run);

/// The steps to delete so that the newest `keep` (>= 1) are left; those in `exempt` stay and do not
/// count against `keep`. `saved` is the step that was just saved: it is the newest and always stays. Steps above it are of
/// a branch that a resume from an older step has abandoned, and go first.
std::vector<std::int64_t> steps_to_delete(const std::vector<std::int64_t>& ascending,
                                          std::int64_t saved,
                                          int keep,
                                          const std::set<std::int64_t>& exempt);

/// Removes one checkpoint; it stops being one (its manifest goes) before its files do.
void remove_checkpoint(const RunFolder& run, std::int64_t step);

/// The folder of one checkpoint: `given` itself, or, where it is a run directory, its latest. Where a save was killed while a
/// newer one of that step took its place, the folder that was set aside (is_set_aside): whole, and back in its place after
/// clean_left_overs (put_back). Changes nothing.
/// Throws Storage saying what was looked for when there is none.
std::filesystem::path find_checkpoint(const std::filesystem::path& given);
bool is_set_aside(const std::filesystem::path& folder);

/// Where the checkpoint of `folder` lies now, if clean_left_overs has moved it meanwhile.
std::filesystem::path put_back(const std::filesystem::path& folder);

}  // namespace lockstep::checkpoint
