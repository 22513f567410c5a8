// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "lockstep/comm/world.h"

namespace lockstep::test {

/// Runs `body` once a rank, with threads as ranks, and fails the test with every rank's failure, its rank before it.
/// After `timeout` it says where each rank stands and ends the program.
void run_ranks(int size, const std::function<void(World&)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace lockstep::test
