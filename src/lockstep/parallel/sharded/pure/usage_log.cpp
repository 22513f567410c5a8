// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/pure/usage_log.h"

namespace lockstep::sharded {

void UsageLog::end_step(std::span<const int> uses) {
  ++steps_;
  for (std::size_t parameter = 0; parameter < since_.size(); ++parameter) {
    if (uses[parameter] > 0) {
      since_[parameter] = 0;
    } else if (since_[parameter] == 0) {
      since_[parameter] = steps_;
    }
  }
}

}  // namespace lockstep::sharded
