// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace lockstep::train {

/// The most memory that this process held in tensors and buffers at once, by the ledger of base/memory.h.
std::int64_t peak_memory_bytes();

}  // namespace lockstep::train
