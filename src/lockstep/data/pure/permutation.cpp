// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/pure/permutation.h"

#include <algorithm>
#include <bit>

#include "lockstep/base/error.h"
#include "lockstep/base/philox.h"

namespace lockstep {

namespace {

constexpr std::uint32_t kEpoch =
    1;  // the last word of a counter keeps the three uses of Philox apart
constexpr std::uint32_t kRound = 2;
constexpr std::uint32_t kSwap = 3;

std::uint64_t draw(std::uint64_t value, std::uint32_t round, std::uint32_t use, std::uint64_t key) {
  const auto words = philox(
      {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32), round, use},
      key);
  return std::uint64_t{words[1]} << 32 | words[0];
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t seed, std::uint64_t epoch)
    : size_(size), key_(draw(epoch, 0, kEpoch, seed)) {
  LOCKSTEP_ASSERT(size >= 1 && size <= std::uint64_t{1} << 62);
  const auto rounds = static_cast<std::uint32_t>(24 + 4 * std::bit_width(size));
  for (std::uint32_t round = 0; round < rounds; ++round) {
    round_keys_.push_back(draw(0, round, kRound, key_) % size);
  }
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  LOCKSTEP_ASSERT(position < size_);
  std::uint64_t sample = position;
  for (std::uint32_t round = 0; round < round_keys_.size(); ++round) {
    const std::uint64_t key = round_keys_[round];
    const std::uint64_t partner = key >= sample ? key - sample : key + size_ - sample;
    if ((draw(std::max(sample, partner), round, kSwap, key_) & 1) != 0)
      sample = partner;
  }
  return sample;
}

}  // namespace lockstep
