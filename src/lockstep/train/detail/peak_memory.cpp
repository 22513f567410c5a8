// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/detail/peak_memory.h"

#include <sys/resource.h>

namespace lockstep::train {

std::int64_t peak_memory_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace lockstep::train
