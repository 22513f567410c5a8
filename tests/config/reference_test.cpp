// SPDX-License-Identifier: Apache-2.0
// docs/configuration.md is what the table of keys says of itself.
#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/config/load.h"

#include "support/process.h"

namespace lockstep::test {
namespace {

TEST(ConfigReference, PageIsWhatTheTableOfKeysSays) {
  const std::string said =
      cat("# Configuration\n\nMade from the table of keys in `src/lockstep/config/schema.cpp`.\n\n",
          config_reference());
  const std::string beside = cat(LOCKSTEP_BUILD_DIR, "/configuration.md");
  write_file(beside, said);
  EXPECT_EQ(read_file(cat(LOCKSTEP_SOURCE_DIR, "/docs/configuration.md")), said)
      << "copy " << beside << " to docs/";
}

}  // namespace
}  // namespace lockstep::test
