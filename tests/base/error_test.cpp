// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/error.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Error, RendersEveryFactInOneOrder) {
  const Error error({.fault = Fault::Mismatch,
                     .where = {.rank = 3,
                               .group = "dp (ranks 1 3)",
                               .operation = "all_reduce #417",
                               .subject = "fc1.weight"},
                     .problem = "ranks disagree on the shape",
                     .expected = "f32 [4096, 1024] (rank 1)",
                     .found = "f32 [4096, 512] (rank 3)",
                     .next = "Check that rank 3 built the model with the same tp degree"});
  EXPECT_STREQ(error.what(),
               "[rank 3] all_reduce #417 on dp (ranks 1 3), fc1.weight: ranks disagree on the "
               "shape; expected f32 [4096, 1024] "
               "(rank 1), found f32 [4096, 512] (rank 3). Check that rank 3 built the model with "
               "the same tp degree");
  EXPECT_EQ(error.exit_status(), 5);
}

TEST(Error, LeavesOutWhatIsNotKnown) {
  EXPECT_STREQ(Error({.fault = Fault::Config, .problem = "no model"}).what(), "no model");
}

TEST(Error, FindingsAreReportedAllAtOnce) {
  const std::vector<Finding> findings = {{"a.toml:1", "unknown key 'x'", ""},
                                         {"a.toml:2", "lr is not a number", "Set a number"}};
  try {
    throw_findings(Fault::Config, "2 problems", findings);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "2 problems\n  a.toml:1: unknown key 'x'\n  a.toml:2: lr is not a number. Set a number");
  }
  EXPECT_NO_THROW(throw_findings(Fault::Config, "none", {}));
}

}  // namespace
}  // namespace lockstep
