// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gloo::transport {
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};
}  // namespace gloo::transport
