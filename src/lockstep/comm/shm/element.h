// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace lockstep::comm::shm {

/// What a buffer holds.
enum class Element { F32, F64, BF16, F16, I64, I32, I16, I8, U8, Bool };

/// How elements of the ranks become one. The sum of Bool is "any".
enum class Reduction { Sum, Max, Min };

constexpr std::size_t bytes_of(Element element) {
  switch (element) {
    case Element::F64:
    case Element::I64: return 8;
    case Element::F32:
    case Element::I32: return 4;
    case Element::BF16:
    case Element::F16:
    case Element::I16: return 2;
    default: return 1;
  }
}

}  // namespace lockstep::comm::shm
