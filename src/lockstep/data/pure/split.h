// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/pure/sampler.h"

namespace lockstep {

/// One reader of several: worker `worker` of rank `rank`.
struct Reader {
  std::int64_t rank = 0;
  std::int64_t num_ranks = 1;
  std::int64_t worker = 0;
  std::int64_t num_workers = 1;

  /// Whether item `index` of a stream that every reader goes through is this reader's: each item
  /// has one reader.
  bool takes(std::int64_t index) const {
    return index % (num_ranks * num_workers) == rank * num_workers + worker;
  }
};

/// The seed of everything random that worker `worker` of `rank` does in `epoch`: different for
/// each, the same in every run.
std::uint64_t worker_seed(std::int64_t base, const Reader& reader, std::int64_t epoch);

/// The seed of one batch of that worker, so that a resumed epoch draws what the uninterrupted one
/// does.
std::uint64_t batch_seed(std::uint64_t worker_seed, std::int64_t batch);

/// Ids of all samples that rank `rank` gets in one whole epoch, in its order: what every rank knows
/// of every other one.
std::vector<std::int64_t> ids_of_rank(const SamplerOptions& options,
                                      Dealing dealing,
                                      std::int64_t rank);

}  // namespace lockstep
