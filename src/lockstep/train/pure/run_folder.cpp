// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/run_folder.h"

#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/pure/layout.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// The run directory of a checkpoint's folder RUN/checkpoints/step-N; the folder itself where it is a run directory.
fs::path run_of(const fs::path& given) {
  const fs::path folder = fs::weakly_canonical(given);
  return folder.parent_path().filename() == "checkpoints" ? folder.parent_path().parent_path()
                                                          : folder;
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
  const bool used =
      fs::exists(places.out / "metrics.jsonl") || fs::exists(places.out / "checkpoints");
  if (used && !places.resume_from) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = places.out.string()},
                 .problem = "the run directory holds a run already",
                 .next = "Go on with it by --resume, choose another by --out DIR, or remove it"});
  }
}

void prepare_out(const RunPlaces& places) {
  check_out(places);
  std::error_code failed;
  fs::create_directories(places.out, failed);
  if (failed || access(places.out.c_str(), W_OK) != 0) {
    throw Error({.fault = Fault::Storage,
                 .where = {.subject = places.out.string()},
                 .problem = "the run directory cannot be written",
                 .cause = failed ? failed.message() : "no permission",
                 .next = "Choose another by --out DIR"});
  }
}

}  // namespace lockstep::train
