// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

#include "gloo/transport/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};
}  // namespace gloo
