// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/comm/pure/call_description.h"

namespace lockstep {

/// A short hash of a run of calls that can ride with a sum over ranks: the value (20 bits) and its square. From both sums every
/// rank tells alike whether all values were equal: n * sum of squares = (sum)^2 only then. Exact in fp64 and int64 up to 8192
/// ranks; two different runs of calls look equal once in a million.
struct CallDigest {
  std::int64_t value = 0;
  std::int64_t square = 0;

  /// Whether `ranks` digests, added up to `value` and `square`, were all the same.
  static bool all_equal(std::int64_t value, std::int64_t square, int ranks);
};

/// The calls of one group since somebody last asked, hashed in order, and the texts of the run before, for naming the first
/// call that differs. Threads: any.
class CallHistory {
 public:
  void add(const CallDescription& call);
  /// The digest of the calls since the last take().
  CallDigest take();
  /// The texts of the calls that the last take() covered (the first 4096 of them).
  std::vector<std::string> taken() const;

 private:
  mutable std::mutex mutex_;
  std::uint64_t hash_ = 0;
  std::vector<std::string> calls_;
  std::vector<std::string> taken_;
};

/// Where runs of calls differ first. `calls` is one list a rank. None: they are the same.
struct FirstDifference {
  std::size_t index = 0;  ///< of the call in the lists
  int rank_a = 0;         ///< position in `calls`
  int rank_b = 0;
  std::string a;  ///< "no call" where the list ends
  std::string b;
  bool found = false;
};
FirstDifference first_difference(const std::vector<std::vector<std::string>>& calls);

}  // namespace lockstep
