// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/mesh/rank.h"

namespace lockstep {

/// The axes of a mesh, outermost first: neighbours along the last one have neighbouring ranks.
/// Tensor parallelism in two or three dimensions splits `tp` into depth, row and column; plain `tp` is all three.
enum class Axis { Pp, DpReplicate, DpShard, Cp, TpDepth, TpRow, TpCol };

inline constexpr std::array kAxes = {
    Axis::Pp, Axis::DpReplicate, Axis::DpShard, Axis::Cp, Axis::TpDepth, Axis::TpRow, Axis::TpCol};
inline constexpr std::array kTp = {Axis::TpDepth, Axis::TpRow, Axis::TpCol};
/// The axes over which gradients are reduced: every rank along them sees other samples, or another part of them.
inline constexpr std::array kData = {Axis::DpReplicate, Axis::DpShard, Axis::Cp};

/// "dp_shard", "tp.row"
std::string_view name_of(Axis axis);

/// How many ranks each axis has. `tp` is the whole tensor-parallel degree, of which depth and row are parts.
struct MeshSizes {
  int pp = 1;
  int dp_replicate = 1;
  int dp_shard = 1;
  int cp = 1;
  int tp = 1;
  int tp_depth = 1;
  int tp_row = 1;
};

/// A rank's place along each axis, indexed by Axis.
using Coordinates = std::array<int, kAxes.size()>;

/// Ranks laid out along named axes, row-major with the last axis fastest. A value: no processes, no communication.
///
///   pp 2, tp 3:   pp 0: 0 1 2
///                 pp 1: 3 4 5      the tp group of rank 4 is 3 4 5, its pp group 1 4
///
/// Errors  Config: a size below 1, or a tp that its depth and row do not divide.
class Mesh {
 public:
  explicit Mesh(const MeshSizes& sizes);

  int size() const;
  int size(Axis axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  int size(std::span<const Axis> axes) const;

  /// Usage error for a rank outside the mesh.
  Coordinates coordinates(GlobalRank rank) const;
  int coordinate(GlobalRank rank, Axis axis) const {
    return coordinates(rank)[static_cast<std::size_t>(axis)];
  }
  GlobalRank rank_at(const Coordinates& coordinates) const;

  /// The ranks that share all coordinates of `rank` but those along `axes`, in mesh order.
  std::vector<GlobalRank> slice(GlobalRank rank, std::span<const Axis> axes) const;
  /// All slices along `axes`: each rank is in exactly one. What World::group takes.
  std::vector<std::vector<GlobalRank>> partition(std::span<const Axis> axes) const;

  /// "pp 1, tp 2": the place along axes longer than 1; "the only rank" when there is none.
  std::string place(GlobalRank rank) const;

 private:
  std::array<int, kAxes.size()> sizes_{};
};

}  // namespace lockstep
