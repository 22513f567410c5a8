// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/piece.h"

#include <algorithm>

#include "lockstep/base/text.h"
#include "lockstep/checkpoint/pure/safetensors.h"

namespace lockstep::checkpoint {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Position of the element at `place` (in the tensor) within the row-major box.
std::int64_t position_in(const Part& part, const Sizes& place) {
  std::int64_t position = 0;
  for (std::size_t d = 0; d < place.size(); ++d)
    position = position * part.extent[d] + (place[d] - part.offset[d]);
  return position;
}

/// Number of dims at the end in which the meeting box is as wide as both boxes: they form one row.
std::size_t first_dim_of_row(const Part& a, const Part& b, const Sizes& low, const Sizes& high) {
  std::size_t dim = low.size();
  while (dim > 0) {
    --dim;
    const std::int64_t width = high[dim] - low[dim];
    if (width != a.extent[dim] || width != b.extent[dim])
      return dim;
  }
  return 0;
}

/// Cuts a stretch, given by positions in both boxes, to the elements that both parts hold, and
/// joins it to the one before.
void add_stretch(std::vector<Stretch>& stretches,
                 const Part& source,
                 const Part& target,
                 Stretch stretch) {
  const std::int64_t skip =
      std::max({std::int64_t{0}, source.begin - stretch.source, target.begin - stretch.target});
  const std::int64_t last =
      std::min({stretch.count, source.end - stretch.source, target.end - stretch.target});
  if (skip >= last)
    return;
  stretch = {
      stretch.source + skip - source.begin, stretch.target + skip - target.begin, last - skip};
  if (!stretches.empty()) {
    Stretch& before = stretches.back();
    if (before.source + before.count == stretch.source &&
        before.target + before.count == stretch.target) {
      before.count += stretch.count;
      return;
    }
  }
  stretches.push_back(stretch);
}

}  // namespace

Part whole(const Sizes& shape) {
  return {
      .offset = Sizes(shape.size(), 0), .extent = shape, .begin = 0, .end = num_elements(shape)};
}

std::string misfit(const Part& part, const Sizes& shape) {
  if (part.offset.size() != shape.size() || part.extent.size() != shape.size()) {
    return cat("a box of ", part.offset.size(), " dims in a tensor of ", shape.size());
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (part.offset[d] < 0 || part.extent[d] < 0 || part.extent[d] > shape[d] ||
        part.offset[d] > shape[d] - part.extent[d]) {
      return cat("a box that leaves the tensor in dim ",
                 d,
                 ": ",
                 part.extent[d],
                 " from ",
                 part.offset[d],
                 " of ",
                 shape[d]);
    }
  }
  if (part.begin < 0 || part.end < part.begin || part.end > num_elements(part.extent)) {
    return cat(
        "elements ", part.begin, " to ", part.end, " of a box of ", num_elements(part.extent));
  }
  return "";
}

std::vector<Stretch> common_stretches(const Part& source, const Part& target) {
  std::vector<Stretch> stretches;
  const std::size_t dims = source.offset.size();
  Sizes low(dims);
  Sizes high(dims);
  for (std::size_t d = 0; d < dims; ++d) {
    low[d] = std::max(source.offset[d], target.offset[d]);
    high[d] = std::min(source.offset[d] + source.extent[d], target.offset[d] + target.extent[d]);
    if (low[d] >= high[d])
      return stretches;
  }
  const std::size_t row_dim = first_dim_of_row(source, target, low, high);
  std::int64_t row = 1;
  for (std::size_t d = row_dim; d < dims; ++d)
    row *= high[d] - low[d];

  Sizes place = low;
  while (true) {
    add_stretch(
        stretches, source, target, {position_in(source, place), position_in(target, place), row});
    std::size_t d = row_dim;
    while (d > 0 && ++place[d - 1] == high[d - 1]) {
      --d;
      place[d] = low[d];
    }
    if (d == 0)
      return stretches;
  }
}

}  // namespace lockstep::checkpoint
