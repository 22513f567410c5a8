// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::train {

/// The most memory that this process had resident at once, as the kernel counts it (VmHWM).
std::int64_t peak_memory_bytes();

}  // namespace lockstep::train
