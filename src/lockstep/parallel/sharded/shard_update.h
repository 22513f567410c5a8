// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
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

/// What a whole update shares.
struct UpdateStep {
  /// The true gradient is gradient * scale; the callee applies it exactly once.
  double scale = 1;
  /// Adds each number over the ranks that update other parts of the same parameters: for norms.
  /// Collective over them; does nothing where every rank updates all.
  std::function<void(std::span<double>)> add_over_shards;
};

/// The callback by which the engine has its parameters updated; `optim` implements it.
class ShardUpdate {
 public:
  virtual ~ShardUpdate() = default;
  virtual UpdateUnit needs() const = 0;
  /// Once a step, on every rank alike. Parameters without a gradient on any rank are left out of
  /// `slices`; one of which this rank updates nothing is there with no elements.
  virtual void update(std::span<const UpdateSlice> slices, const UpdateStep& step) = 0;
};

}  // namespace lockstep
