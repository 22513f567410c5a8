// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// Philox 4x32-10: four random 32-bit words of a counter and a key, the same on every machine.
/// Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3".
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::uint64_t key) {
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ k0,
               static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ k1,
               static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return counter;
}

/// A uniform number in [0, 1) with 24 bits, of one word.
constexpr float uniform_of(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

/// Spreads a number's bits over all 64: for keys made of several numbers. Source: Steele et al.
/// 2014, SplitMix64.
constexpr std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

/// FNV-1a: a stable 64-bit number of a name, for keys.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3ULL;
  return hash;
}

}  // namespace lockstep
