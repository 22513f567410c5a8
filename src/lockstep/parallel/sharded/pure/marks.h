// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::sharded {

/// What one rank tells the others about its backward; summed over the ranks inside the last bucket.
struct LocalMarks {
  struct OfParameter {
    bool used = false;       ///< it has a gradient
    bool late = false;       ///< a gradient arrived after its bucket had left
    bool trainable = false;  ///< it requires gradients
  };
  std::vector<OfParameter> parameters;  ///< empty under static_graph, after the first step
  bool active = true;                   ///< this rank has data in this step
  bool counted = false;                 ///< backward was given a count
  std::int64_t count = 0;               ///< samples or tokens since the last reduction, below 2^48
  std::uint32_t call_hash = 0;          ///< of the calls of this step; 24 bits are compared
};

struct GlobalMarks {
  struct OfParameter {
    int used = 0;  ///< ranks
    int late = 0;
    int trainable = 0;
  };
  std::vector<OfParameter> parameters;
  int active = 0;
  int counted = 0;
  std::int64_t count = 0;
  bool calls_agree = true;
};

/// Marks are small whole numbers whose sum over up to 4095 ranks is exact in fp32: two a parameter,
/// then the control words.
inline constexpr int kMarksPerParameter = 2;
inline constexpr int kControlWords = 14;
inline constexpr int kMostRanks = 4095;

std::vector<float> encode(const LocalMarks& marks);

/// `sums` is the element-wise sum of every rank's encode(), or of its control words alone.
GlobalMarks decode(std::span<const float> sums, int num_ranks);

}  // namespace lockstep::sharded
