// SPDX-License-Identifier: Apache-2.0
#include "e2e/kill_rounds.h"

namespace lockstep::test {
namespace {

TEST(KillFull, OfAnyRankAtAnyMomentEndsTheJobInTimeAndNamesIt) {
  kill_ranks_at_random_moments(50, std::random_device()());
}

}  // namespace
}  // namespace lockstep::test
