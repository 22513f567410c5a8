// SPDX-License-Identifier: Apache-2.0
#include "lockstep/mesh/mesh.h"

#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

const std::vector<MeshSizes> kMeshes = {
    {},
    {.dp_replicate = 5},
    {.pp = 2, .tp = 3},
    {.pp = 3, .dp_replicate = 2, .dp_shard = 2, .cp = 3, .tp = 5},
    {.dp_shard = 2, .tp = 12, .tp_depth = 3, .tp_row = 2},
    {.pp = 7, .dp_shard = 3},
};

// Every choice of axes, as bits.
std::vector<Axis> axes_of(unsigned bits) {
  std::vector<Axis> axes;
  for (const Axis axis : kAxes) {
    if ((bits >> static_cast<unsigned>(axis)) & 1U)
      axes.push_back(axis);
  }
  return axes;
}

std::vector<int> values(const std::vector<GlobalRank>& ranks) {
  std::vector<int> numbers;
  for (const GlobalRank rank : ranks)
    numbers.push_back(rank.value);
  return numbers;
}

TEST(Mesh, CoordinatesAndRanksAreInverse) {
  for (const MeshSizes& sizes : kMeshes) {
    const Mesh mesh(sizes);
    std::set<Coordinates> seen;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      EXPECT_EQ(mesh.rank_at(mesh.coordinates({rank})).value, rank);
      seen.insert(mesh.coordinates({rank}));
    }
    EXPECT_EQ(static_cast<int>(seen.size()), mesh.size());
  }
}

TEST(Mesh, PartitionsHoldEveryRankOnceAndAgreeWithSlices) {
  for (const MeshSizes& sizes : kMeshes) {
    const Mesh mesh(sizes);
    for (unsigned bits = 0; bits < 1U << kAxes.size(); ++bits) {
      const std::vector<Axis> axes = axes_of(bits);
      std::multiset<int> seen;
      for (const auto& part : mesh.partition(axes)) {
        EXPECT_EQ(static_cast<int>(part.size()), mesh.size(axes));
        for (const GlobalRank rank : part) {
          seen.insert(rank.value);
          EXPECT_EQ(mesh.slice(rank, axes), part);
        }
      }
      EXPECT_EQ(static_cast<int>(seen.size()), mesh.size());
      EXPECT_EQ(static_cast<int>(std::set<int>(seen.begin(), seen.end()).size()), mesh.size());
    }
  }
}

TEST(Mesh, LaysTheLastAxisOutFastest) {
  const Mesh mesh({.pp = 2, .tp = 3});
  EXPECT_THAT(values(mesh.slice({4}, kTp)), testing::ElementsAre(3, 4, 5));
  EXPECT_THAT(values(mesh.slice({4}, std::array{Axis::Pp})), testing::ElementsAre(1, 4));
  EXPECT_EQ(mesh.coordinate({4}, Axis::Pp), 1);
  EXPECT_EQ(mesh.place({4}), "pp 1, tp 1");
}

TEST(Mesh, SplitsTensorParallelismIntoDepthRowAndColumn) {
  const Mesh mesh({.dp_shard = 2, .tp = 12, .tp_depth = 3, .tp_row = 2});
  EXPECT_EQ(mesh.size(), 24);
  EXPECT_EQ(mesh.size(kTp), 12);
  EXPECT_EQ(mesh.size(Axis::TpCol), 2);
  EXPECT_EQ(mesh.place({23}), "dp_shard 1, tp.depth 2, tp.row 1, tp.col 1");
  EXPECT_THAT(values(mesh.slice({13}, std::array{Axis::TpRow})), testing::ElementsAre(13, 15));
}

TEST(Mesh, ReducesGradientsOverAllDataAxes) {
  const Mesh mesh({.pp = 2, .dp_replicate = 2, .dp_shard = 2, .tp = 2});
  EXPECT_THAT(values(mesh.slice({1}, kData)), testing::ElementsAre(1, 3, 5, 7));
}

TEST(Mesh, TellsAllWrongSizesAtOnce) {
  try {
    (void)Mesh({.pp = 0, .cp = -2});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Config);
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("parallel.pp"),
                               testing::HasSubstr("parallel.cp"),
                               testing::HasSubstr("-2")));
  }
  EXPECT_THROW(Mesh({.tp = 8, .tp_row = 3}), Error);
  EXPECT_THROW((void)Mesh({.tp = 2}).coordinates({2}), Error);
}

}  // namespace
}  // namespace lockstep
