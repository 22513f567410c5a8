// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/run_folder.h"

#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/pure/layout.h"
#include "lockstep/train/pure/metrics.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTraceBegin = "{\"traceEvents\":";

/// The run directory of a checkpoint's folder RUN/checkpoints/step-N; the folder itself where it is a run directory.
fs::path run_of(const fs::path& given) {
  const fs::path folder = fs::weakly_canonical(given);
  return folder.parent_path().filename() == "checkpoints" ? folder.parent_path().parent_path()
                                                          : folder;
}

void check_file(const char* option, const fs::path& file, const RunPlaces& places) {
  if (file.empty())
    return;
  const fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  std::error_code none;
  const bool comes = folder == fs::absolute(places.out / "").lexically_normal().parent_path();
  const bool there = fs::is_directory(folder, none);
  const bool fits = !fs::is_directory(file, none) &&
                    (there ? access(folder.c_str(), W_OK) == 0 : comes);  // prepare_out makes it
  if (fits)
    return;
  throw Error({.fault = Fault::Storage,
               .where = {.subject = cat(option, " ", file.string())},
               .problem = "the file cannot be written",
               .cause = fs::is_directory(file, none) ? "it is a folder"
                        : there                      ? "no permission in its folder"
                                                     : "its folder is not there",
               .next = cat("Make the folder ", folder.string(), " or name another file")});
}

/// A trace may take the place of an earlier one, and of nothing else.
void check_old_trace(const fs::path& trace) {
  std::error_code none;
  if (trace.empty() || !fs::exists(trace, none))
    return;
  std::string begin(kTraceBegin.size(), '\0');
  if (fs::is_regular_file(trace, none)) {
    std::ifstream in(trace, std::ios::binary);
    in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
    if (in.gcount() == 0 || begin == kTraceBegin)
      return;
  }
  throw Error({.fault = Fault::Config,
               .where = {.subject = cat("--trace ", trace.string())},
               .problem = "the file is there already and is no trace, and would be overwritten",
               .next = "Choose another file, or remove it"});
}

void check_not_used(const RunPlaces& places) {
  const bool used =
      fs::exists(places.out / "metrics.jsonl") || fs::exists(places.out / "checkpoints");
  if (used && !places.resume_from) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = places.out.string()},
                 .problem = "the run directory holds a run already",
                 .next = "Go on with it by --resume, choose another by --out DIR, or remove it"});
  }
}

}  // namespace

RunPlaces places_of(const fs::path& config,
                    const fs::path& out,
                    const std::optional<std::string>& resume) {
  RunPlaces places{.out = out.empty() ? fs::path("runs") / config.stem() : out,
                   .resume_from = std::nullopt};
  if (!resume)
    return places;
  if (*resume == "latest") {
    places.resume_from = checkpoint::find_checkpoint(places.out);
    return places;
  }
  places.resume_from = checkpoint::find_checkpoint(*resume);
  if (out.empty())
    places.out = run_of(*resume);
  return places;
}

void check_out(const RunPlaces& places) {
  check_not_in_use(places.out);
  check_not_used(places);
}

void check_files(const RunPlaces& places, const fs::path& metrics, const fs::path& trace) {
  check_file("--metrics", metrics, places);
  check_file("--trace", trace, places);
  check_old_trace(trace);
  if (places.resume_from) {
    check_metrics(metrics.empty() ? places.out / "metrics.jsonl" : metrics);
    check_metrics(places.out / "evaluations.jsonl");
    return;
  }
  std::error_code none;
  if (metrics.empty() || !fs::exists(metrics, none))
    return;
  throw Error({.fault = Fault::Config,
               .where = {.subject = cat("--metrics ", metrics.string())},
               .problem = "the file is there already, and lines of another run would mix with it",
               .next = "Go on with that run by --resume, choose another file, or remove it"});
}

std::unique_ptr<RunLock> prepare_out(const RunPlaces& places) {
  check_out(places);
  std::error_code failed;
  fs::create_directories(places.out, failed);
  if (!failed && access(places.out.c_str(), W_OK) != 0)
    failed = std::error_code(errno, std::generic_category());
  if (failed) {
    throw Error({.fault = Fault::Storage,
                 .where = {.subject = places.out.string()},
                 .problem = "the run directory cannot be written",
                 .cause = failed.message(),
                 .next = "Choose another by --out DIR"});
  }
  auto lock = std::make_unique<RunLock>(places.out);
  check_not_used(places);  // a run may have come and gone since
  fs::remove(places.out / "failure.json", failed);
  return lock;
}

}  // namespace lockstep::train
