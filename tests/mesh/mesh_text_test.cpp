// SPDX-License-Identifier: Apache-2.0
#include "lockstep/mesh/mesh_text.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

std::string refusal(std::string_view text, int ranks) {
  try {
    (void)parse_mesh(text, ranks);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(MeshText, GivesWhatIsLeftToTheReplicas) {
  EXPECT_EQ(parse_mesh("", 6).size(Axis::DpReplicate), 6);
  const Mesh mesh = parse_mesh("pp=2, tp=3", 12);
  EXPECT_EQ(mesh.size(Axis::Pp), 2);
  EXPECT_EQ(mesh.size(kTp), 3);
  EXPECT_EQ(mesh.size(Axis::DpReplicate), 2);
  EXPECT_EQ(parse_mesh("dp_replicate=2,dp_shard=3", 6).size(Axis::DpShard), 3);
}

TEST(MeshText, RefusesWhatDoesNotFitWithBothNumbers) {
  EXPECT_THAT(refusal("pp=4", 6),
              testing::AllOf(testing::HasSubstr("4"), testing::HasSubstr("6 ranks")));
  EXPECT_THAT(refusal("dp_replicate=2", 6), testing::HasSubstr("multiply to 2"));
  EXPECT_THAT(refusal("dp_shrad=2", 6), testing::HasSubstr("dp_shard"));
  EXPECT_THAT(refusal("pp=x", 6), testing::HasSubstr("pp=x"));
}

}  // namespace
}  // namespace lockstep
