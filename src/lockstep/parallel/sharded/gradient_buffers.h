// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/parallel/sharded/parameter_table.h"
#include "lockstep/parallel/sharded/pure/gradient_plan.h"

namespace lockstep::sharded {

/// The gradients of the parameters that are trained, in flat buffers; `parameter.grad()` is a view
/// of its place.
///
/// Views     have the parameter's shape and strides. zero_grad() may drop them; the next gradient
///           is copied in and the view put back (adopt). While a bucket travels its gradients are
///           undefined (take_off), so that a gradient that comes late is a tensor of its own and
///           disturbs nothing.
/// Shards    Of each bucket this rank keeps one part after a reduction; what the others hold then is
///           of no use. With one shard the part is the whole.
class GradientBuffers {
 public:
  struct Cut {
    std::int64_t bucket_bytes = kDefaultBucketBytes;
    int shards = 1;
    int shard = 0;  ///< this rank's
  };
  GradientBuffers(const ParameterTable& table, const Cut& cut);

  const GradientPlan& plan() const { return plan_; }
  bool holds(int parameter) const { return slots_[static_cast<std::size_t>(parameter)] >= 0; }
  int bucket_of(int parameter) const { return place(parameter).bucket; }
  const Place& place(int parameter) const;
  /// Type and device of a flat buffer.
  at::TensorOptions options(const FlatBuffer& flat) const {
    return types_[static_cast<std::size_t>(flat.type)];
  }
  /// The parameters of a bucket, as numbers of the table.
  const std::vector<int>& members(int bucket) const {
    return members_[static_cast<std::size_t>(bucket)];
  }

  const at::Tensor& view(int parameter) const;

  /// Makes a gradient that lies elsewhere the view of its place. Errors: Config naming a parameter
  /// with a sparse gradient.
  void adopt(int parameter) const;
  /// Before its bucket leaves: the place holds the gradient, or zeros where there is none; the
  /// gradient becomes undefined. Returns whether there was one.
  bool take_off(int parameter) const;
  void put_back(int parameter) const;

  /// A bucket's memory; with the last `marks` mark elements before it where the bucket is the last
  /// one and carries them.
  at::Tensor bucket(int number, std::int64_t marks) const;
  /// The last `marks` elements of the place reserved for marks; undefined where they travel alone.
  at::Tensor marks(std::int64_t marks) const;

  /// This rank's part of a bucket, in its memory.
  at::Tensor own(int bucket) const;
  Range own_range(int bucket) const;

  /// Multiplies every gradient that this rank keeps.
  void scale(double factor) const;
  /// Zeros what this rank does not keep.
  void clear_others() const;

 private:
  const ParameterTable& table_;
  Cut cut_;
  GradientPlan plan_;
  std::vector<at::TensorOptions> types_;
  std::vector<int> slots_;  // of a parameter in the plan, -1: not trained
  std::vector<std::vector<int>> members_;
  std::vector<at::Tensor> flats_;
  std::vector<at::Tensor> views_;  // by slot
};

}  // namespace lockstep::sharded
