// SPDX-License-Identifier: Apache-2.0
// Compiled with -O3: plain loops that become vector instructions. A result may be a source at the same index, so restrict
// would be wrong; ivdep says what is true, that no element depends on another.
#include "lockstep/comm/shm/reduce.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/half.h"

namespace lockstep::comm::shm {

namespace {

constexpr std::size_t kBlock = 2048;  // elements; their accumulators stay in the first cache

template <typename Kept>
struct Plain {
  using Stored = Kept;
  using Added = Kept;
  static Added load(Stored value) { return value; }
  static Stored store(Added value) { return value; }
};

struct BFloat16 {
  using Stored = std::uint16_t;
  using Added = float;
  static float load(Stored bits) { return from_bf16(bits); }
  static Stored store(float value) { return to_bf16(value); }
};

struct Float16 {
  using Stored = std::uint16_t;
  using Added = float;
  static float load(Stored bits) { return from_f16(bits); }
  static Stored store(float value) { return to_f16(value); }
};

template <Reduction R, typename T>
T combine(T a, T b) {
  if constexpr (R == Reduction::Max) {
    return a > b || a != a ? a : b;
  } else if constexpr (R == Reduction::Min) {
    return a < b || a != a ? a : b;
  } else if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(
        static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return a + b;
  }
}

// One block. Two sources go straight to the result; more pass through accumulators.
template <typename Type, Reduction R>
void reduce_block(std::span<const std::byte* const> sources,
                  std::byte* result,
                  std::size_t begin,
                  std::size_t count) {
  using Stored = typename Type::Stored;
  const auto at = [&](const std::byte* bytes) {
    return reinterpret_cast<const Stored*>(bytes) + begin;
  };
  const Stored* first = at(sources[0]);
  const Stored* second = at(sources[1]);
  Stored* out = reinterpret_cast<Stored*>(result) + begin;
  if (sources.size() == 2) {
#pragma GCC ivdep
    for (std::size_t i = 0; i < count; ++i)
      out[i] = Type::store(combine<R>(Type::load(first[i]), Type::load(second[i])));
    return;
  }
  std::array<typename Type::Added, kBlock> sums;
  for (std::size_t i = 0; i < count; ++i)
    sums[i] = combine<R>(Type::load(first[i]), Type::load(second[i]));
  for (std::size_t source = 2; source + 1 < sources.size(); ++source) {
    const Stored* next = at(sources[source]);
    for (std::size_t i = 0; i < count; ++i)
      sums[i] = combine<R>(sums[i], Type::load(next[i]));
  }
  const Stored* last = at(sources.back());
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i)
    out[i] = Type::store(combine<R>(sums[i], Type::load(last[i])));
}

template <typename Type, Reduction R>
void reduce_all(std::span<const std::byte* const> sources,
                std::span<std::byte* const> results,
                std::size_t count) {
  constexpr std::size_t bytes = sizeof(typename Type::Stored);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    reduce_block<Type, R>(sources, results[0], begin, size);
    for (std::byte* copy : results.subspan(1))
      std::memcpy(copy + begin * bytes, results[0] + begin * bytes, size * bytes);
  }
}

template <typename Type>
void reduce_as(Reduction reduction,
               std::span<const std::byte* const> sources,
               std::span<std::byte* const> results,
               std::size_t count) {
  switch (reduction) {
    case Reduction::Sum: return reduce_all<Type, Reduction::Sum>(sources, results, count);
    case Reduction::Max: return reduce_all<Type, Reduction::Max>(sources, results, count);
    case Reduction::Min: return reduce_all<Type, Reduction::Min>(sources, results, count);
  }
}

}  // namespace

void reduce(Element element,
            Reduction reduction,
            std::span<const std::byte* const> sources,
            std::span<std::byte* const> results,
            std::size_t count) {
  LOCKSTEP_ASSERT(sources.size() >= 2 && !results.empty());
  switch (element) {
    case Element::F32: return reduce_as<Plain<float>>(reduction, sources, results, count);
    case Element::F64: return reduce_as<Plain<double>>(reduction, sources, results, count);
    case Element::BF16: return reduce_as<BFloat16>(reduction, sources, results, count);
    case Element::F16: return reduce_as<Float16>(reduction, sources, results, count);
    case Element::I64: return reduce_as<Plain<std::int64_t>>(reduction, sources, results, count);
    case Element::I32: return reduce_as<Plain<std::int32_t>>(reduction, sources, results, count);
    case Element::I16: return reduce_as<Plain<std::int16_t>>(reduction, sources, results, count);
    case Element::I8: return reduce_as<Plain<std::int8_t>>(reduction, sources, results, count);
    case Element::U8: return reduce_as<Plain<std::uint8_t>>(reduction, sources, results, count);
    case Element::Bool:
      return reduce_as<Plain<std::uint8_t>>(
          reduction == Reduction::Sum ? Reduction::Max : reduction, sources, results, count);
  }
}

}  // namespace lockstep::comm::shm
