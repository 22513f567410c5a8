// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/train/pure/run_lock.h"

namespace lockstep::train {

/// Where a run writes and what it goes on from.
struct RunPlaces {
  std::filesystem::path out;
  std::optional<std::filesystem::path> resume_from;  ///< the folder of one checkpoint
};

/// `config` is the configuration file, `out` of --out (empty: runs/NAME OF THE FILE), `resume` of --resume: none, "latest" or a
/// run directory or the folder of one of its checkpoints (without --out the run goes on in that directory).
/// Throws Storage where there is nothing to resume from.
RunPlaces places_of(const std::filesystem::path& config,
                    const std::filesystem::path& out,
                    const std::optional<std::string>& resume);

/// Throws Config where a run that is alive has the directory, and where it holds a run already and `places` does not resume.
/// Writes nothing.
void check_out(const RunPlaces& places);

/// The same for files that are named on the command line (empty: not given): throws Config where `metrics` is there already and
/// `places` does not resume, where it resumes and a line of the file to go on in was not written by a run, and where `trace`
/// would overwrite what is no trace; Storage where a file's folder is not there or not writable. Writes nothing.
void check_files(const RunPlaces& places,
                 const std::filesystem::path& metrics,
                 const std::filesystem::path& trace);

/// Checks and makes the run directory and locks it; the report of an earlier failure goes. The run may write as long as it keeps
/// the lock. Throws as check_out; Storage where it cannot be made or written.
std::unique_ptr<RunLock> prepare_out(const RunPlaces& places);

}  // namespace lockstep::train
