// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/tensor/pure/keep_mask.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/philox.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define LOCKSTEP_VECTOR_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define LOCKSTEP_VECTOR_CLONES
#endif

namespace lockstep::tensor {
namespace {

constexpr std::size_t kLanes = 8;
constexpr std::size_t kGroup = 4 * kLanes;

struct Stream {
  std::uint64_t key;
  std::uint32_t sample_low;
  std::uint32_t sample_high;
  std::uint32_t step;
};

Stream stream_of(const MaskSource& source) {
  const auto sample = static_cast<std::uint64_t>(source.sample);
  return {.key = mix(mix(source.seed) ^ source.site),
          .sample_low = static_cast<std::uint32_t>(sample),
          .sample_high = static_cast<std::uint32_t>(sample >> 32),
          .step = static_cast<std::uint32_t>(source.step)};
}

/// The 32 words of one group: philox() of blocks 8 group .. 8 group + 7, lane by lane; word w of
/// lane l at [8 w + l].
LOCKSTEP_VECTOR_CLONES void fill_words(std::uint32_t* words,
                                       std::uint32_t first_block,
                                       const Stream& stream) {
  std::uint32_t a[kLanes], b[kLanes], c[kLanes], d[kLanes];
  for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
    a[lane] = first_block + lane;
    b[lane] = stream.sample_low;
    c[lane] = stream.sample_high;
    d[lane] = stream.step;
  }
  auto k0 = static_cast<std::uint32_t>(stream.key);
  auto k1 = static_cast<std::uint32_t>(stream.key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * a[lane];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * c[lane];
      a[lane] = static_cast<std::uint32_t>(p1 >> 32) ^ b[lane] ^ k0;
      c[lane] = static_cast<std::uint32_t>(p0 >> 32) ^ d[lane] ^ k1;
      b[lane] = static_cast<std::uint32_t>(p1);
      d[lane] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    words[lane] = a[lane];
    words[kLanes + lane] = b[lane];
    words[2 * kLanes + lane] = c[lane];
    words[3 * kLanes + lane] = d[lane];
  }
}

template <typename T>
void fill(std::span<T> out,
          std::uint64_t begin,
          const MaskSource& source,
          std::uint32_t threshold,
          T kept) {
  LOCKSTEP_ASSERT(begin + out.size() <= (std::uint64_t{1} << 34));
  const Stream stream = stream_of(source);
  alignas(64) std::array<std::uint32_t, kGroup> words;
  std::size_t done = 0;
  while (done < out.size()) {
    const std::uint64_t element = begin + done;
    const std::size_t skip = element % kGroup;
    const std::size_t count = std::min(kGroup - skip, out.size() - done);
    fill_words(words.data(), static_cast<std::uint32_t>(element / kGroup * kLanes), stream);
    for (std::size_t i = 0; i < count; ++i) {
      out[done + i] = words[skip + i] < threshold ? T{0} : kept;
    }
    done += count;
  }
}

}  // namespace

std::uint32_t drop_threshold(double rate) {
  LOCKSTEP_ASSERT(rate >= 0.0 && rate < 1.0);
  return static_cast<std::uint32_t>(std::min(rate * 0x1p32, 0x1p32 - 1.0));
}

void fill_keep_mask(std::span<float> out,
                    std::uint64_t begin,
                    const MaskSource& source,
                    std::uint32_t threshold,
                    float kept) {
  fill(out, begin, source, threshold, kept);
}

void fill_keep_mask(std::span<double> out,
                    std::uint64_t begin,
                    const MaskSource& source,
                    std::uint32_t threshold,
                    double kept) {
  fill(out, begin, source, threshold, kept);
}

}  // namespace lockstep::tensor
