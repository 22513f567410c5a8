// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/parallel/sharded/parameter_table.h"

namespace lockstep::sharded {

/// The memory of the parameters as flat buffers, one an element type and device, each parameter at
/// a multiple of 64 bytes. Tensor objects stay what they are, only their memory moves. A parameter
/// that shares its memory with anything else stays where it is, since moving it would silently
/// untie it; it is then a buffer of its own.
class FlatValues {
 public:
  explicit FlatValues(const ParameterTable& table);

  /// All of the parameters, for a broadcast: the flat buffers, then what could not move.
  const std::vector<at::Tensor>& buffers() const { return buffers_; }

 private:
  std::vector<at::Tensor> buffers_;
};

}  // namespace lockstep::sharded
