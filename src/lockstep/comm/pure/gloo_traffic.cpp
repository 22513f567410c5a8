// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/pure/gloo_traffic.h"

#include <algorithm>

namespace lockstep {

namespace {

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// The ring is cut into segments of at most 1 MiB, at least two a rank and the same number for each; a rank owns a run of
// segments and sends every rank's run but one in each half of the ring.
std::int64_t ring_all_reduce(std::int64_t bytes, std::int64_t element_bytes, int rank, int size) {
  constexpr std::int64_t kSegmentBytes = 1024 * 1024;
  const std::int64_t wanted =
      std::max<std::int64_t>((bytes + kSegmentBytes - 1) / kSegmentBytes, 2 * size);
  const std::int64_t segments = round_up(wanted, size);
  const std::int64_t segment = round_up((bytes + segments - 1) / segments, element_bytes);
  const std::int64_t run = segments / size * segment;
  const auto run_bytes = [&](int owner) {
    const std::int64_t begin = std::min(bytes, owner * run);
    return std::min(bytes, begin + run) - begin;
  };
  return (bytes - run_bytes(rank)) + (bytes - run_bytes((rank + size - 1) % size));
}

// Children of `rank` in a binomial tree rooted at `root`.
int tree_children(int rank, int root, int size) {
  const int place = (rank - root + size) % size;
  int children = 0;
  for (int step = 1; step < size; step *= 2) {
    if (place < step && place + step < size)
      ++children;
  }
  return children;
}

}  // namespace

std::int64_t gloo_sent_bytes(const CallDescription& call, int rank, int size) {
  const std::int64_t bytes = call.bytes();
  switch (call.operation) {
    case Operation::AllReduce:
      return size == 1 ? 0
                       : ring_all_reduce(
                             bytes, std::max<std::int64_t>(1, call.element_bytes), rank, size);
    case Operation::ReduceScatter:
    case Operation::AllGather:
    case Operation::AllToAll: return bytes / size * (size - 1);
    case Operation::Broadcast: return bytes * tree_children(rank, call.root, size);
    case Operation::Send: return bytes;
    case Operation::Connect:
    case Operation::Recv:
    case Operation::Barrier: return 0;
  }
  return 0;
}

}  // namespace lockstep
