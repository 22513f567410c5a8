// SPDX-License-Identifier: Apache-2.0
#include "lockstep/config/portable.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/config/load.h"

namespace lockstep {
namespace {

/// What a run of `text` on `ranks` keeps, read again.
Config kept(const Config& asked, std::int64_t ranks) {
  return parse_config(print_config(portable(asked, resolve(asked, ranks))), "config.toml");
}

TEST(Portable, ResolvesToTheSameOnAsManyRanks) {
  for (const char* text : {"[batch]\nglobal = 24\n",
                           "[batch]\nmicro = 2\naccumulation = 3\n",
                           "[batch]\nglobal = 24\nmicro = 3\n[parallel]\ndp_replicate = \"rest\"\n",
                           "[batch]\nglobal = 24\n[parallel]\ndp_replicate = 4\n"}) {
    const Config asked = parse_config(text, "run.toml");
    EXPECT_EQ(resolve(kept(asked, 4), 4).config, resolve(asked, 4).config) << text;
  }
}

TEST(Portable, GoesOnOnAnyNumberOfRanksThatDivides) {
  const Config asked = parse_config("[batch]\nglobal = 24\naccumulation = 2\n", "run.toml");
  for (const std::int64_t ranks : {1, 2, 3, 4, 6, 12}) {
    const Resolved other = resolve(kept(asked, 2), ranks);
    EXPECT_EQ(other.batch, (BatchSizes{.micro = 12 / ranks, .accumulation = 2, .global = 24}));
    EXPECT_EQ(other.parallel.dp_replicate, ranks);
  }
}

TEST(Portable, KeepsANumberOfRanksThatWasAskedFor) {
  const Config asked =
      parse_config("[batch]\nglobal = 24\n[parallel]\ndp_replicate = 2\n", "run.toml");
  EXPECT_THROW(resolve(kept(asked, 2), 3), Error);
}

}  // namespace
}  // namespace lockstep
