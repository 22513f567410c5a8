// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/config/resolve.h"

namespace lockstep {

/// The configuration to keep of a run that `asked` became `resolved`: what was derived is filled in, except what follows from
/// the number of ranks. The axis that took the rest says "rest", and of the batch stands what was asked. It resolves to the
/// same values on as many ranks, and on any other number that divides.
Config portable(const Config& asked, const Resolved& resolved);

}  // namespace lockstep
