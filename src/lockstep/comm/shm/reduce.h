// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "lockstep/comm/shm/element.h"

namespace lockstep::comm::shm {

/// Reduces `count` elements over `sources`, in their order, and writes the result to every one of `results`.
/// 16-bit floating types are added in fp32 and rounded once, to the nearest even. Integers wrap. NaN wins over every number.
/// A result may be one of the sources; otherwise nothing overlaps. At least two sources and one result.
/// Cost     each source read once, each result written once; accumulators stay in the first cache.
void reduce(Element element,
            Reduction reduction,
            std::span<const std::byte* const> sources,
            std::span<std::byte* const> results,
            std::size_t count);

}  // namespace lockstep::comm::shm
