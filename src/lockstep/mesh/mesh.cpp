// SPDX-License-Identifier: Apache-2.0
#include "lockstep/mesh/mesh.h"

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace {

std::size_t index_of(Axis axis) { return static_cast<std::size_t>(axis); }

void check(const MeshSizes& sizes) {
  std::vector<Finding> findings;
  const auto at_least_one = [&](std::string_view name, int size) {
    if (size < 1)
      findings.push_back({cat("parallel.", name),
                          cat("must be at least 1, is ", size),
                          "Set it to 1 to leave the axis out"});
  };
  at_least_one("pp", sizes.pp);
  at_least_one("dp_replicate", sizes.dp_replicate);
  at_least_one("dp_shard", sizes.dp_shard);
  at_least_one("cp", sizes.cp);
  at_least_one("tp", sizes.tp);
  at_least_one("tp_depth", sizes.tp_depth);
  at_least_one("tp_row", sizes.tp_row);
  if (findings.empty() && sizes.tp % (sizes.tp_depth * sizes.tp_row) != 0) {
    findings.push_back({"parallel.tp",
                        cat(sizes.tp,
                            " ranks do not divide into depth ",
                            sizes.tp_depth,
                            " and rows ",
                            sizes.tp_row),
                        "Set tp to a multiple of depth times rows"});
  }
  throw_findings(Fault::Config, "the mesh cannot be laid out", findings);
}

}  // namespace

std::string_view name_of(Axis axis) {
  switch (axis) {
    case Axis::Pp: return "pp";
    case Axis::DpReplicate: return "dp_replicate";
    case Axis::DpShard: return "dp_shard";
    case Axis::Cp: return "cp";
    case Axis::TpDepth: return "tp.depth";
    case Axis::TpRow: return "tp.row";
    case Axis::TpCol: return "tp.col";
  }
  LOCKSTEP_ASSERT(false);
  return "";
}

Mesh::Mesh(const MeshSizes& sizes) {
  check(sizes);
  sizes_ = {sizes.pp,
            sizes.dp_replicate,
            sizes.dp_shard,
            sizes.cp,
            sizes.tp_depth,
            sizes.tp_row,
            sizes.tp / (sizes.tp_depth * sizes.tp_row)};
}

int Mesh::size() const { return size(kAxes); }

int Mesh::size(std::span<const Axis> axes) const {
  int product = 1;
  for (const Axis axis : axes)
    product *= size(axis);
  return product;
}

Coordinates Mesh::coordinates(GlobalRank rank) const {
  if (rank.value < 0 || rank.value >= size()) {
    throw Error({.fault = Fault::Usage,
                 .problem = "the rank is outside the mesh",
                 .expected = cat("0 to ", size() - 1),
                 .found = cat(rank.value),
                 .next = "Start as many ranks as the axes of the mesh multiply to"});
  }
  Coordinates place{};
  int rest = rank.value;
  for (std::size_t i = kAxes.size(); i-- > 0;) {
    place[i] = rest % sizes_[i];
    rest /= sizes_[i];
  }
  return place;
}

GlobalRank Mesh::rank_at(const Coordinates& coordinates) const {
  int rank = 0;
  for (std::size_t i = 0; i < kAxes.size(); ++i)
    rank = rank * sizes_[i] + coordinates[i];
  return {rank};
}

std::vector<GlobalRank> Mesh::slice(GlobalRank rank, std::span<const Axis> axes) const {
  const Coordinates mine = coordinates(rank);
  std::vector<GlobalRank> ranks;
  for (int other = 0; other < size(); ++other) {
    const Coordinates theirs = coordinates({other});
    const bool shared = std::all_of(kAxes.begin(), kAxes.end(), [&](Axis axis) {
      return std::count(axes.begin(), axes.end(), axis) > 0 ||
             theirs[index_of(axis)] == mine[index_of(axis)];
    });
    if (shared)
      ranks.push_back({other});
  }
  return ranks;
}

std::vector<std::vector<GlobalRank>> Mesh::partition(std::span<const Axis> axes) const {
  std::vector<std::vector<GlobalRank>> parts;
  for (int rank = 0; rank < size(); ++rank) {
    const Coordinates place = coordinates({rank});
    const bool first = std::all_of(
        axes.begin(), axes.end(), [&](Axis axis) { return place[index_of(axis)] == 0; });
    if (first)
      parts.push_back(slice({rank}, axes));
  }
  return parts;
}

std::string Mesh::place(GlobalRank rank) const {
  const Coordinates place = coordinates(rank);
  std::vector<std::string> parts;
  for (const Axis axis : kAxes) {
    const bool plain_tp = axis == Axis::TpCol && size(Axis::TpDepth) == 1 && size(Axis::TpRow) == 1;
    if (size(axis) > 1)
      parts.push_back(cat(plain_tp ? "tp" : name_of(axis), " ", place[index_of(axis)]));
  }
  return parts.empty() ? "the only rank" : join(parts, ", ");
}

}  // namespace lockstep
