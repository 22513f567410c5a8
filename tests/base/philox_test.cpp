// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/philox.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// Known answers of the authors' Random123 distribution.
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0),
            (std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffffULL),
            (std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
}

TEST(Philox, UniformStaysBelowOne) {
  EXPECT_EQ(uniform_of(0), 0.0F);
  EXPECT_LT(uniform_of(0xffffffff), 1.0F);
}

}  // namespace
}  // namespace lockstep
