// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/peak_memory.h"

#include "lockstep/base/memory.h"

namespace lockstep::train {

std::int64_t peak_memory_bytes() { return memory_report().total.peak_bytes; }

}  // namespace lockstep::train
