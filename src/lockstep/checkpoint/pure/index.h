// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/pure/dtype.h"
#include "lockstep/checkpoint/pure/piece.h"

namespace lockstep::checkpoint {

/// A part of a tensor on disk: the tensor `key` of `file` holds its elements in a row.
struct Piece {
  std::string file;
  std::string key;
  Part part;
};

struct IndexEntry {
  std::string name;  ///< of the bare model: "layers.0.mlp.fc1.weight", "optimizer.exp_avg.<that>"
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;  ///< of the logical tensor, whatever the mesh that wrote it
  std::vector<Piece> pieces;
};

/// index.json: every logical tensor of a checkpoint and where its pieces lie.
struct Index {
  std::vector<IndexEntry> entries;             ///< ordered by name
  std::map<std::string, std::string> aliases;  ///< a tied name and the entry that holds it

  /// The entry of a name or an alias; null where there is none.
  const IndexEntry* find(std::string_view name) const;
};

std::string to_json(const Index& index);

/// Throws Storage naming `file` for what is no index, and for pieces that leave a tensor, overlap
/// or do not cover it.
Index parse_index(std::string_view text, std::string_view file);

/// Nothing when the pieces hold every element of the entry once, else a clause that says what is
/// missing or double.
std::string coverage_fault(const IndexEntry& entry);

/// A read of `stretches.source` elements of a piece into the wanted part's elements
/// `stretches.target`.
struct PieceRead {
  const Piece* piece = nullptr;  ///< in the entry that was passed
  std::vector<Stretch> stretches;
};

/// The pieces, and the elements of each, that fill `wanted`: what a rank of any mesh reads of a
/// checkpoint of any other.
std::vector<PieceRead> reads_for(const IndexEntry& entry, const Part& wanted);

}  // namespace lockstep::checkpoint
