// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/comm/pure/call_description.h"

namespace lockstep {

/// Payload bytes that `rank` of `size` ranks sends when `call` runs on a ring, as NCCL's large calls do: 2 (n-1)/n of the whole
/// for all_reduce, (n-1)/n for reduce_scatter, all_gather and all_to_all, the whole for broadcast except from the ring's last.
/// What NCCL really sends cannot be counted from outside it: with trees or NVLink's own sums it is less.
std::int64_t ring_sent_bytes(const CallDescription& call, int rank, int size);

}  // namespace lockstep
