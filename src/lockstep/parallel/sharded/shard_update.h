// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <ATen/core/Tensor.h>

namespace lockstep {

/// What an optimizer must see whole to update it; shards are cut accordingly.
enum class UpdateUnit { Element, Parameter, Matrix };

/// The part of one parameter that this rank updates: elements [begin, begin + value.numel()) in the
/// order of memory. `value` and `gradient` are one-dimensional views of the flat buffers; writing
/// to `value` changes the model.
struct UpdateSlice {
  std::string name;
  at::Tensor value;
  at::Tensor gradient;
  std::int64_t begin = 0;
  at::Tensor parameter;  ///< the whole parameter's metadata: shape, strides, type
};

/// The callback by which the engine has its parameters updated; `optim` implements it.
class ShardUpdate {
 public:
  virtual ~ShardUpdate() = default;
  virtual UpdateUnit needs() const = 0;
  /// Once a step, on every rank alike. Parameters without a gradient on any rank are left out of
  /// `slices`. The true gradient is gradient * scale; the callee applies `scale` exactly once.
  virtual void update(std::span<const UpdateSlice> slices, double scale) = 0;
};

}  // namespace lockstep
