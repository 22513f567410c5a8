// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/comm/pure/call_description.h"

namespace lockstep {

/// Payload bytes that `rank` of `size` ranks hands to the wire when Gloo runs `call` (its algorithms: a ring of segments for
/// all_reduce and all_gather, a binomial tree for broadcast, direct exchange for all_to_all; reduce_scatter is our own, an
/// all_to_all of slices). Headers of Gloo and TCP come on top. A test compares this with the interface's counters.
std::int64_t gloo_sent_bytes(const CallDescription& call, int rank, int size);

}  // namespace lockstep
