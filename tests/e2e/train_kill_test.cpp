// SPDX-License-Identifier: Apache-2.0
#include "e2e/train_kill_rounds.h"

namespace lockstep::test {
namespace {

TEST_F(KilledTrain, AtARandomMomentLeavesACheckpointThatLoads_CKP_04) {
  kill_rounds(3, any_seed());
}

}  // namespace
}  // namespace lockstep::test
