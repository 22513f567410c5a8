// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/bucket_bytes.h"

namespace lockstep::sharded {

/// Every parameter starts at a multiple of this in its flat buffer: off alignment, matrix products
/// change their bits.
inline constexpr std::int64_t kAlignmentBytes = 64;

/// A parameter as the plan sees it. `type` numbers the element types, equal numbers share a flat
/// buffer.
struct PlannedParameter {
  std::int64_t elements = 0;
  int type = 0;
  int element_bytes = 4;
  bool exact_counts =
      true;  ///< the type holds whole numbers up to 2^24 (fp32, fp64), so marks may ride beside it
};

/// Where a parameter's gradient lies: elements [begin, begin + elements) of flat buffer `flat`.
struct Place {
  int flat = 0;
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  int bucket = 0;
};

/// Elements [begin, end) of a flat buffer.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// One reduction: elements [begin, end) of a flat buffer, padding included; with shards, as many
/// whole multiples of kAlignmentBytes for each of them.
struct Bucket {
  int flat = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<int> parameters;  ///< in reverse order of registration, as gradients usually arrive
};

struct FlatBuffer {
  int type = 0;
  int element_bytes = 4;
  std::int64_t elements = 0;  ///< with padding and, in one of them, the marks
};

/// Gradients of one unit as flat buffers, one an element type, cut into buckets.
///
/// Picture   flat: [marks | p0 pad | p1 pad | ... | pN pad]; buckets are ranges of it, launched from
///           the back to the front.
/// Order     of places and buckets is fixed by the parameters alone: the same on every rank.
/// Marks     elements reserved before the first parameter of the bucket that is launched last, so
///           that they ride in it. Where that bucket's type cannot count exactly, `marks_flat` is
///           -1 and they travel alone.
struct GradientPlan {
  std::vector<FlatBuffer> flats;
  std::vector<Place> places;    ///< by parameter
  std::vector<Bucket> buckets;  ///< in the order of launch; the last one does not include the marks
  int marks_flat = -1;
  std::int64_t marks_end = 0;  ///< marks lie in [marks_end - n, marks_end)
};

struct PlanLimits {
  /// Cap of one bucket; a parameter above it has a bucket of its own.
  std::int64_t bucket_bytes = kDefaultBucketBytes;
  std::int64_t marks_elements = 0;
  int shards = 1;  ///< ranks among which each bucket is cut; above 1 marks travel alone
};

/// Fills buckets in reverse order of registration up to the cap. Where one bucket would hold
/// everything and the whole is not tiny, it is cut in two, so that the first half travels while
/// backward computes the other.
GradientPlan plan_gradients(std::span<const PlannedParameter> parameters, const PlanLimits& limits);

/// The elements of a bucket that belong to shard `shard` of `shards`.
Range shard_of(const Bucket& bucket, int shard, int shards);

/// `elements` rounded up to whole multiples of kAlignmentBytes.
std::int64_t padded(std::int64_t elements, int element_bytes);

}  // namespace lockstep::sharded
