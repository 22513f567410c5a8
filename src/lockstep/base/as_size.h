// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace lockstep {

// Ranks, buckets and parameters are ints; standard containers count with size_t. The number must not be negative.
constexpr std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

}  // namespace lockstep
