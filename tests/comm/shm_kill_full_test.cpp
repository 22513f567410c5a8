// SPDX-License-Identifier: Apache-2.0
#include "comm/shm_kill.h"

namespace lockstep::test {
namespace {

TEST(Shm, LeavesNothingBehindWhenARankIsKilledInACollectiveAHundredTimes) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(cat("round ", round, ", seed ", seed));
    kill_a_rank_in_a_collective(random);
  }
}

}  // namespace
}  // namespace lockstep::test
