// SPDX-License-Identifier: Apache-2.0
// 16-bit floating types by integer arithmetic without branches, so that loops over them become vector instructions.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::comm::shm {

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

/// To the nearest, ties to even; every NaN becomes the quiet one.
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U;
  return static_cast<std::uint16_t>((bits & 0x7fffffffU) > 0x7f800000U ? 0x7fc0U : rounded);
}

inline float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t rest = (bits & 0x7fffU) << 13U;
  // Normal numbers move to the other exponent bias, infinities and NaN to the top exponent.
  const std::uint32_t wide = rest + (rest >= 0x0f800000U ? 0x70000000U : 0x38000000U);
  // Subnormal ones: the fraction beside an implicit one, which is taken off as a number.
  const float small = std::bit_cast<float>(rest + 0x38800000U) - std::bit_cast<float>(0x38800000U);
  const std::uint32_t value = rest < 0x00800000U ? std::bit_cast<std::uint32_t>(small) : wide;
  return std::bit_cast<float>(value | sign);
}

/// To the nearest, ties to even; every NaN becomes the quiet one.
inline std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16U) & 0x8000U;
  const std::uint32_t size = bits & 0x7fffffffU;
  const std::uint32_t normal = (size - 0x38000000U + 0xfffU + ((size >> 13U) & 1U)) >> 13U;
  // Below the smallest normal number an addition shifts the fraction into place and rounds it.
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3f000000U;
  const std::uint32_t top = size > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = size < 0x38800000U ? small : normal;
  return static_cast<std::uint16_t>(sign | (size >= 0x477ff000U ? top : finite));
}

}  // namespace lockstep::comm::shm
