// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/comm/world.h"

namespace lockstep {

/// Where this rank stands: "rank 2: phase forward; all (ranks 0 1 2): in all_reduce #17". For reports on hangs; any thread.
std::string standing(const World& world);

}  // namespace lockstep
