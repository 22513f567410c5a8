// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/pure/index.h"

namespace lockstep::checkpoint {

/// A part of a tensor that a rank holds and could write.
struct Holding {
  std::string name;
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  Part part;
};

/// What each rank writes: positions in its own list. A part that several ranks hold is written
/// once; the writers are chosen so that the ranks write about the same number of bytes (largest
/// first, to the rank with least). The same on every rank. Throws Mismatch when two ranks give a
/// tensor different shapes or types, naming both ranks.
std::vector<std::vector<std::size_t>> share_out(const std::vector<std::vector<Holding>>& of_ranks);

/// The index of the files that come out of that. Throws Internal where a tensor is not covered.
Index index_of(const std::vector<std::vector<Holding>>& of_ranks,
               const std::vector<std::vector<std::size_t>>& writes);

/// The tensor's name inside its rank's file: the name, with "#k" for the k-th further part of one
/// tensor.
std::vector<std::string> keys_of(const std::vector<Holding>& holdings,
                                 const std::vector<std::size_t>& writes);

std::string to_text(const std::vector<Holding>& holdings);
std::vector<Holding> parse_holdings(std::string_view text);

/// Names of a model and names of a checkpoint, brought together.
struct NameMatch {
  std::vector<std::string>
      found;  ///< the checkpoint's name for each wanted name; empty where missing
  std::vector<std::string> missing;     ///< wanted, not in the checkpoint
  std::vector<std::string> unexpected;  ///< in the checkpoint, not wanted
};

/// Accepts up to two leading "module." (what wrappers add) on either side, the same number for all
/// names of a side; names that match as they are come first, so a user's own submodule called
/// `module` is left alone. The prefix counts after "optimizer.<kind>." too.
NameMatch match_names(const std::vector<std::string>& wanted,
                      const std::vector<std::string>& available);

}  // namespace lockstep::checkpoint
