// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/pure/split.h"

#include "lockstep/base/philox.h"

namespace lockstep {

namespace {

std::uint64_t draw(std::uint64_t a, std::uint64_t b, std::uint64_t key) {
  const auto words = philox({static_cast<std::uint32_t>(a),
                             static_cast<std::uint32_t>(a >> 32),
                             static_cast<std::uint32_t>(b),
                             static_cast<std::uint32_t>(b >> 32)},
                            key);
  return std::uint64_t{words[1]} << 32 | words[0];
}

}  // namespace

std::uint64_t worker_seed(std::int64_t base, const Reader& reader, std::int64_t epoch) {
  const std::uint64_t key = hash_name("worker") ^ static_cast<std::uint64_t>(base);
  const std::uint64_t of_epoch = draw(static_cast<std::uint64_t>(epoch), 0, key);
  return draw(
      static_cast<std::uint64_t>(reader.rank), static_cast<std::uint64_t>(reader.worker), of_epoch);
}

std::uint64_t batch_seed(std::uint64_t worker_seed, std::int64_t batch) {
  return draw(static_cast<std::uint64_t>(batch), 1, worker_seed);
}

std::vector<std::int64_t> ids_of_rank(const SamplerOptions& options,
                                      Dealing dealing,
                                      std::int64_t rank) {
  dealing.rank = rank;
  SamplerOptions once = options;
  once.num_epochs = 1;
  DistributedSampler sampler(once, dealing);
  std::vector<std::int64_t> ids;
  while (const auto step = sampler.next()) {
    for (const auto& batch : step->micro_batches)
      ids.insert(ids.end(), batch.begin(), batch.end());
  }
  return ids;
}

}  // namespace lockstep
