// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/pure/gradient_plan.h"

#include <algorithm>
#include <map>

namespace lockstep::sharded {

namespace {

// Below this, a second reduction costs more latency than its overlap saves.
constexpr std::int64_t kSplitFloorBytes = 64 * 1024;

std::int64_t padded_bytes(const PlannedParameter& parameter) {
  return padded(parameter.elements, parameter.element_bytes) * parameter.element_bytes;
}

/// Parameters of each bucket, in the order of launch. One bucket is open for each element type; the
/// one whose parameters come last in the walk is launched last.
std::vector<std::vector<int>> fill(std::span<const PlannedParameter> parameters,
                                   std::int64_t cap_bytes) {
  struct Open {
    std::vector<int> members;
    std::int64_t bytes = 0;
  };
  std::map<int, Open> open;
  std::vector<std::vector<int>> closed;
  for (int index = static_cast<int>(parameters.size()) - 1; index >= 0; --index) {
    const PlannedParameter& parameter = parameters[static_cast<std::size_t>(index)];
    Open& bucket = open[parameter.type];
    const std::int64_t bytes = padded_bytes(parameter);
    if (!bucket.members.empty() && bucket.bytes + bytes > cap_bytes) {
      closed.push_back(std::move(bucket.members));
      bucket = Open{};
    }
    bucket.members.push_back(index);
    bucket.bytes += bytes;
  }
  std::vector<std::vector<int>> rest;
  for (auto& [type, bucket] : open)
    rest.push_back(std::move(bucket.members));
  std::ranges::sort(rest, [](const auto& a, const auto& b) { return a.back() > b.back(); });
  std::ranges::move(rest, std::back_inserter(closed));
  return closed;
}

/// One bucket cut in two near half of its bytes, so that the first can go while backward makes the
/// second; left whole where it is too small for that to pay.
std::vector<std::vector<int>> halves(std::span<const PlannedParameter> parameters,
                                     std::vector<int> members) {
  const auto bytes_of = [&](int index) {
    return padded_bytes(parameters[static_cast<std::size_t>(index)]);
  };
  std::int64_t total = 0;
  for (const int member : members)
    total += bytes_of(member);
  if (members.size() < 2 || total < kSplitFloorBytes)
    return {std::move(members)};
  std::size_t cut = 0;
  for (std::int64_t bytes = 0; cut + 1 < members.size() && 2 * bytes < total; ++cut)
    bytes += bytes_of(members[cut]);
  const auto middle = members.begin() + static_cast<std::ptrdiff_t>(cut);
  return {std::vector<int>(members.begin(), middle), std::vector<int>(middle, members.end())};
}

}  // namespace

std::int64_t padded(std::int64_t elements, int element_bytes) {
  const std::int64_t step = std::max<std::int64_t>(1, kAlignmentBytes / element_bytes);
  return (elements + step - 1) / step * step;
}

Range shard_of(const Bucket& bucket, int shard, int shards) {
  const std::int64_t size = (bucket.end - bucket.begin) / shards;
  return {bucket.begin + shard * size, bucket.begin + (shard + 1) * size};
}

GradientPlan plan_gradients(std::span<const PlannedParameter> parameters,
                            const PlanLimits& limits) {
  GradientPlan plan;
  plan.places.resize(parameters.size());
  std::vector<std::vector<int>> filled = fill(parameters, limits.bucket_bytes);
  if (filled.size() == 1)
    filled = halves(parameters, std::move(filled.front()));

  std::map<int, int> flat_of_type;
  for (const PlannedParameter& parameter : parameters) {
    if (flat_of_type.emplace(parameter.type, static_cast<int>(plan.flats.size())).second) {
      plan.flats.push_back({parameter.type, parameter.element_bytes, 0});
    }
  }
  if (!filled.empty()) {
    const PlannedParameter& last = parameters[static_cast<std::size_t>(filled.back().back())];
    if (last.exact_counts && limits.shards == 1) {
      plan.marks_flat = flat_of_type[last.type];
      plan.marks_end = padded(limits.marks_elements, last.element_bytes);
      plan.flats[static_cast<std::size_t>(plan.marks_flat)].elements = plan.marks_end;
    }
  }
  for (std::size_t number = 0; number < filled.size(); ++number) {
    for (const int member : filled[number])
      plan.places[static_cast<std::size_t>(member)].bucket = static_cast<int>(number);
    plan.buckets.push_back({.parameters = std::move(filled[number])});
  }
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    Place& place = plan.places[index];
    place.flat = flat_of_type[parameters[index].type];
    place.elements = parameters[index].elements;
    FlatBuffer& buffer = plan.flats[static_cast<std::size_t>(place.flat)];
    place.begin = buffer.elements;
    buffer.elements += padded(place.elements, buffer.element_bytes);
    // Members lie in order of registration, so the last of the list is the first in memory.
    Bucket& bucket = plan.buckets[static_cast<std::size_t>(place.bucket)];
    if (static_cast<int>(index) == bucket.parameters.back()) {
      bucket.flat = place.flat;
      bucket.begin = place.begin;
    }
    if (static_cast<int>(index) == bucket.parameters.front()) {
      const std::int64_t shard =
          (buffer.elements - bucket.begin + limits.shards - 1) / limits.shards;
      buffer.elements = bucket.begin + limits.shards * padded(shard, buffer.element_bytes);
      bucket.end = buffer.elements;
    }
  }
  return plan;
}

}  // namespace lockstep::sharded
