// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/parallel/sharded/gradient_buffers.h"
#include "lockstep/parallel/sharded/parameter_table.h"

namespace lockstep::sharded {

/// The memory of the parameters as flat buffers, one an element type and device, each parameter at
/// a multiple of 64 bytes. Tensor objects stay what they are, only their memory moves. A parameter
/// that shares its memory with anything else stays where it is, since moving it would silently
/// untie it; it is then a buffer of its own.
class FlatValues {
 public:
  explicit FlatValues(const ParameterTable& table);

  /// The same with what `layout` holds at the places of its gradients, in row-major order, so that
  /// a bucket of values is cut like its gradients. Errors: Config for such a parameter that shares
  /// its memory.
  FlatValues(const ParameterTable& table, const GradientBuffers& layout);

  /// All of the parameters, for a broadcast: the flat buffers, then what could not move.
  const std::vector<at::Tensor>& buffers() const { return buffers_; }
  /// A flat buffer of the layout.
  const at::Tensor& flat(int number) const { return buffers_[static_cast<std::size_t>(number)]; }

 private:
  void gather(const ParameterTable& table, const GradientBuffers* layout);

  std::vector<at::Tensor> buffers_;
};

}  // namespace lockstep::sharded
