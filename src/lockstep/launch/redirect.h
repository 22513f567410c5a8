// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string_view>

namespace lockstep::launch {

/// torchrun's numbers: which streams of a rank are meant. Bit 0 standard output, bit 1 standard error.
enum class Streams { None = 0, Out = 1, Err = 2, Both = 3 };

constexpr bool has(Streams streams, Streams one) {
  return (static_cast<int>(streams) & static_cast<int>(one)) != 0;
}

/// Streams by local rank: one value for all, or a value for each rank that is named (the others none).
struct StreamChoice {
  Streams all = Streams::None;
  std::map<int, Streams> by_rank;

  Streams of(int local_rank) const;
  bool empty() const { return all == Streams::None && by_rank.empty(); }
};

/// "0".."3", or "0:3,1:2". Throws Usage that names `flag` and the text.
StreamChoice parse_streams(std::string_view text, std::string_view flag);

}  // namespace lockstep::launch
