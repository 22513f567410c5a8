// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep {

/// Gradients that are reduced together unless told otherwise: of the configuration and of the
/// library alike.
inline constexpr std::int64_t kDefaultBucketBytes = 25 * 1024 * 1024;

}  // namespace lockstep
