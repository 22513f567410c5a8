// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace lockstep::tensor {

/// Names the random words of one dropout site, of one sample, in one step.
struct MaskSource {
  std::uint64_t seed = 0;
  std::uint64_t site = 0;  ///< hash_name of the site's name, "layers.3.mlp"
  std::int64_t step = 0;
  std::int64_t sample = 0;
};

/// Words below this are dropped: rate * 2^32.
std::uint32_t drop_threshold(double rate);

/// out[i] = 0 where logical element begin + i of the sample is dropped, else `kept`.
///
/// A function of (source, element) alone: not of the batch, the rank, the order of calls or
/// `begin`, so any cut of a sample gives the same mask, and a second call (backward, recomputation)
/// the first one's.
/// Element e uses Philox block 8 (e / 32) + e % 8, word (e % 32) / 8: eight blocks side by side
/// make whole vectors.
/// Limits: elements below 2^34 of one sample, steps below 2^32.
void fill_keep_mask(std::span<float> out,
                    std::uint64_t begin,
                    const MaskSource& source,
                    std::uint32_t threshold,
                    float kept);
void fill_keep_mask(std::span<double> out,
                    std::uint64_t begin,
                    const MaskSource& source,
                    std::uint32_t threshold,
                    double kept);

}  // namespace lockstep::tensor
