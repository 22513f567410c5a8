// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/group.h"
#include "lockstep/parallel/sharded/gradient_buffers.h"
#include "lockstep/parallel/sharded/parameter_table.h"
#include "lockstep/parallel/sharded/pure/marks.h"

namespace lockstep::sharded {

/// Sums the gradients of one synchronised backward over the ranks, bucket by bucket, while backward
/// goes on.
///
/// Launch    A bucket leaves when all its gradients are there and the bucket before it has left, so
///           the order is the same on every rank. "There": as often as in the last backward, since
///           recomputation adds to a gradient several times; one that comes later still is summed
///           by itself at the end. The last bucket leaves at the end and carries the marks.
/// Contract  begin, arrived..., finish on every rank alike; finish blocks.
class Reducer {
 public:
  /// `shards`: 1 leaves every rank all sums, the group's size leaves each its part of every bucket.
  Reducer(const ParameterTable& table, const Group& group, std::int64_t bucket_bytes, int shards);

  void begin();
  /// The `times`-th gradient of this backward was added to the parameter.
  void arrived(int parameter, int times);
  /// Puts the gradients of all ranks' sum in place; those that no rank has are left undefined.
  /// `marks` holds what the engine knows; what concerns parameters is filled in here, unless
  /// `only_control`. Errors: Mismatch naming a parameter that some ranks train and others do not.
  enum class Carry { AllMarks, ControlOnly };
  GlobalMarks finish(LocalMarks marks, std::span<const int> times, Carry carry);
  /// A backward ended by an error: waits for the buckets that left, whose gradients stay undefined.
  /// Throws nothing: it runs while that error is on its way.
  void abandon();

  /// Whether the sum of the parameter's gradients over the ranks is there.
  bool has_sum(int parameter) const { return sums_[static_cast<std::size_t>(parameter)] != 0; }
  bool has_sums() const;
  /// With shards: the sums times `factor` become this rank's share of the next sum, so that
  /// backwards add to them.
  void reopen(double factor);
  void forget_sums();

  const GradientBuffers& buffers() const { return *buffers_; }
  std::int64_t reductions() const { return reductions_; }
  std::int64_t bytes() const { return bytes_; }  ///< payload since the start
  double marks_seconds() const { return marks_seconds_; }

 private:
  void send(const at::Tensor& tensor, const std::string& subject);
  void reduce_bucket(int bucket, std::int64_t marks);
  void launch(int bucket, std::int64_t marks);
  void launch_ready();
  void launch_rest(const LocalMarks& marks, Carry carry);
  void wait();
  GlobalMarks read_marks(std::int64_t words);
  void refuse_partly_frozen(const GlobalMarks& marks) const;
  void keep_sum(int parameter);
  void add_late(int parameter, const at::Tensor& gradient);
  void settle(const GlobalMarks& marks);
  void follow_frozen();
  std::string label(int bucket) const;

  const ParameterTable& table_;
  Group group_;
  GradientBuffers::Cut cut_;
  std::optional<GradientBuffers> buffers_;
  std::vector<Pending> pending_;
  at::Tensor lone_marks_;
  int next_ = 0;              // bucket to leave next
  std::vector<int> missing_;  // by bucket: parameters whose gradients are not all there
  std::vector<int>
      expected_;  // by parameter: gradients a backward, from the last one; 0: unused for long
  std::vector<int> idle_;  // by parameter: backwards in a row without a gradient
  std::vector<char> used_, late_;
  std::vector<char> sums_;          // by parameter
  std::vector<int> used_anywhere_;  // by parameter, as last heard
  std::int64_t reductions_ = 0;
  std::int64_t bytes_ = 0;
  double marks_seconds_ = 0;
};

}  // namespace lockstep::sharded
