// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "lockstep/comm/world.h"

namespace lockstep {

/// The main of a rank: joins the world, runs `body`, and tells the others and the launcher how it ended. An error is published
/// while the world still lives, so that every rank can say what the first cause was, and is logged. Returns the exit status.
///
///   int main() { return lockstep::rank_main([](lockstep::World& world) { train(world); }); }
int rank_main(const std::function<void(World&)>& body, const WorldOptions& options = {});

}  // namespace lockstep
