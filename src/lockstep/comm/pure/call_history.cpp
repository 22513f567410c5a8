// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/pure/call_history.h"

#include <algorithm>
#include <utility>

namespace lockstep {

namespace {
constexpr std::size_t kMostTexts = 4096;
constexpr std::uint64_t kValues = 1 << 20;

// FNV-1a over the text, then mixed with what came before, so that the order counts.
std::uint64_t mix(std::uint64_t before, const std::string& text) {
  std::uint64_t hash = before ^ 0xcbf29ce484222325U;
  for (const char letter : text) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 0x100000001b3U;
  }
  hash ^= hash >> 29U;
  return hash * 0xbf58476d1ce4e5b9U;
}
}  // namespace

bool CallDigest::all_equal(std::int64_t value, std::int64_t square, int ranks) {
  // By Cauchy and Schwarz, with equality only where all are equal. Products need more than 64 bits.
  __extension__ using Wide = __int128;
  return static_cast<Wide>(ranks) * square == static_cast<Wide>(value) * value;
}

void CallHistory::add(const CallDescription& call) {
  std::string text = text_of(call);
  const std::lock_guard lock(mutex_);
  hash_ = mix(hash_, text);
  if (calls_.size() < kMostTexts)
    calls_.push_back(std::move(text));
}

CallDigest CallHistory::take() {
  const std::lock_guard lock(mutex_);
  const auto value = static_cast<std::int64_t>((hash_ >> 32U) % kValues);
  taken_ = std::exchange(calls_, {});
  hash_ = 0;
  return {.value = value, .square = value * value};
}

std::vector<std::string> CallHistory::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

FirstDifference first_difference(const std::vector<std::vector<std::string>>& calls) {
  std::size_t longest = 0;
  for (const auto& list : calls)
    longest = std::max(longest, list.size());
  const auto at = [&](std::size_t rank, std::size_t index) {
    return index < calls[rank].size() ? calls[rank][index] : std::string("no call");
  };
  for (std::size_t index = 0; index < longest; ++index) {
    for (std::size_t rank = 1; rank < calls.size(); ++rank) {
      if (at(rank, index) != at(0, index)) {
        return {.index = index,
                .rank_a = 0,
                .rank_b = static_cast<int>(rank),
                .a = at(0, index),
                .b = at(rank, index),
                .found = true};
      }
    }
  }
  return {};
}

}  // namespace lockstep
