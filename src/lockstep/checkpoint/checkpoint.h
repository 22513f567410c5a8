// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/checkpoint/pure/index.h"
#include "lockstep/checkpoint/pure/layout.h"
#include "lockstep/checkpoint/pure/manifest.h"
#include "lockstep/comm/group.h"

namespace lockstep::checkpoint {

/// What this rank holds of one logical tensor: `data` has the part's elements in a row.
struct StateTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< of the logical tensor
  Part part;
  at::Tensor data;
};

StateTensor whole_tensor(std::string name, const at::Tensor& data);

/// Everything that a run needs to go on, at one step. Names are the bare model's, with
/// "optimizer.<kind>." before them for the optimizer's state.
struct Snapshot {
  std::int64_t step = 0;
  std::vector<StateTensor> tensors;
  std::map<std::string, std::string> aliases;  ///< a tied name and the name that is saved
  std::string state = "{}";                    ///< one JSON object
};

/// Writes RUN/checkpoints/step-N and points RUN/latest to it.
///
/// Contract  Every rank of `group` calls with its own parts; together they hold every tensor, and
///           what several ranks hold is written once. Blocking. The tensors are not changed. All
///           ranks return or all throw.
/// Cost      Each rank writes about bytes(all)/n once and reads it back; memory: one block of 4
///           MiB, and a host copy of one tensor at a time where it is not contiguous on the host.
/// Errors    Storage (no space, no permission), Mismatch (ranks disagree on a tensor): nothing of
///           the new checkpoint is left, older ones and `latest` are untouched. A kill at any
///           moment leaves at most a hidden folder for clean_left_overs.
void save(const RunFolder& run, const Snapshot& snapshot, const Group& group);

/// Which names of the checkpoint are meant.
enum class Scope {
  Everything,
  Model,  ///< no optimizer state and no masters: for evaluation and generation
};

enum class Names {
  Strict,   ///< missing or unexpected names are an error that lists both
  Lenient,  ///< they are returned; still an error when nothing at all matches
};

struct LoadReport {
  std::int64_t num_loaded = 0;
  std::vector<std::string> missing;     ///< of the model, not in the checkpoint
  std::vector<std::string> unexpected;  ///< in the checkpoint, not of the model
};

/// A checkpoint on disk, opened for reading. Reads manifest and index; the tensors' bytes only when
/// they are asked for.
/// Threads  One rank each opens its own; no communication.
class Checkpoint {
 public:
  /// `folder` holds manifest.json; see find_checkpoint. Throws Storage naming the file that is
  /// missing, cut or changed.
  explicit Checkpoint(std::filesystem::path folder);

  std::int64_t step() const { return manifest_.step; }
  const std::string& state() const { return manifest_.state; }
  const Index& index() const { return index_; }
  const Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& folder() const { return folder_; }

  /// Fills the data of `targets`, whatever mesh wrote the checkpoint, and reads only what they need
  /// of it. Accepts names with or without wrappers' "module." (match_names). A tied name may be
  /// left out of `targets`.
  /// Cost    memory: one block a file.
  /// Errors  Storage for damage, naming the file; Config for names, shapes and types that do not
  ///         fit, all listed at once. After an error `targets` may be filled in part.
  LoadReport load(std::vector<StateTensor>& targets, Scope scope, Names names) const;

  /// Reads every byte of every file and compares it with the manifest.
  void verify() const;

 private:
  std::filesystem::path folder_;
  Manifest manifest_;
  Index index_;
};

}  // namespace lockstep::checkpoint
