// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include "lockstep/comm/world.h"

namespace lockstep::test {

/// Runs `body` once a rank, with threads as ranks, and fails the test with every rank's failure, its rank before it.
/// A body that returns has finished; one that throws has failed, and the others stop.
/// After `timeout` it says where each rank stands and ends the program. LOCKSTEP_TEST_BACKEND names the backend of tests that
/// choose none.
void run_ranks(int size,
               const std::function<void(World&)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(60));

/// The same with options of the worlds; `timeout` is that of the whole.
void run_ranks(int size,
               const WorldOptions& options,
               const std::function<void(World&)>& body,
               std::chrono::milliseconds timeout = std::chrono::seconds(60));

/// The same for bodies that provoke the failure of a group and catch it: the end of every rank must report it once more.
void run_failing_ranks(int size,
                       const WorldOptions& options,
                       const std::function<void(World&)>& body);
void run_failing_ranks(int size, const std::function<void(World&)>& body);

}  // namespace lockstep::test
