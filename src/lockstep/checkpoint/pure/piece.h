// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::checkpoint {

/// What one rank holds of a logical tensor: elements [begin, end) of the row-major box at `offset`
/// with sizes `extent`.
///
///   tensor parallelism cuts boxes, flat sharding cuts rows of them:
///     [4, 6] split by columns over 2, then flat over 2 ranks:   box offset [0, 3] extent [4, 3],
///     elements [0, 6) and [6, 12)
///
/// A whole tensor is the box at zero with the tensor's shape, elements [0, all).
struct Part {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> extent;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  auto operator<=>(const Part&) const = default;
};

Part whole(const std::vector<std::int64_t>& shape);

/// Nothing when the part fits a tensor of `shape`, else a clause that says what is wrong.
std::string misfit(const Part& part, const std::vector<std::int64_t>& shape);

/// `count` elements in a row, from element `source` of one part's data to element `target` of
/// another's.
struct Stretch {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t count = 0;
  auto operator<=>(const Stretch&) const = default;
};

/// The elements that both parts of one tensor hold, as stretches ordered by source; none where they
/// do not meet. Cost: one stretch per row of the boxes' intersection at worst, one in all for equal
/// boxes.
std::vector<Stretch> common_stretches(const Part& source, const Part& target);

}  // namespace lockstep::checkpoint
