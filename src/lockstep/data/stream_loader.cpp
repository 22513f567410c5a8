// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/data/detail/prefetcher.h"
#include "lockstep/data/loader.h"

namespace lockstep {

namespace {

// One worker's share of the stream, read in order by one thread.
detail::Prefetcher::Source source_of(Stream stream, const Reader& reader) {
  return [stream = std::move(stream),
          reader,
          index = std::int64_t{0}]() mutable -> std::optional<detail::Prefetcher::Job> {
    while (auto examples = stream()) {
      if (!reader.takes(index++))
        continue;
      return [index, examples = std::move(*examples)] {
        return Batch{.examples = examples, .ids = {index - 1}};
      };
    }
    return std::nullopt;
  };
}

}  // namespace

struct StreamLoader::State {
  std::vector<std::unique_ptr<detail::Prefetcher>> workers;  ///< those with items left
  std::size_t turn = 0;
};

StreamLoader::StreamLoader(const std::function<Stream(const Reader&)>& open,
                           std::int64_t rank,
                           std::int64_t num_ranks,
                           const LoaderOptions& options)
    : state_(std::make_unique<State>()) {
  LOCKSTEP_ASSERT(options.workers >= 1 && num_ranks >= 1 && rank >= 0 && rank < num_ranks);
  if (options.shuffle) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "loader"},
                 .problem = "a stream comes in its own order and cannot be shuffled",
                 .next = "Leave out shuffle"});
  }
  const auto workers = static_cast<std::size_t>(options.workers);
  const std::size_t depth = std::max<std::size_t>(1, options.prefetch / workers);
  for (std::int64_t worker = 0; worker < options.workers; ++worker) {
    const Reader reader{rank, num_ranks, worker, options.workers};
    state_->workers.push_back(std::make_unique<detail::Prefetcher>(
        source_of(open(reader), reader), 1, depth, options.timeout));
  }
}

StreamLoader::StreamLoader(StreamLoader&&) noexcept = default;
StreamLoader& StreamLoader::operator=(StreamLoader&&) noexcept = default;
StreamLoader::~StreamLoader() = default;

std::optional<Batch> StreamLoader::next() {
  auto& workers = state_->workers;
  while (!workers.empty()) {
    state_->turn %= workers.size();
    if (auto batch = workers[state_->turn]->next()) {
      ++state_->turn;
      return batch;
    }
    workers.erase(workers.begin() + static_cast<std::ptrdiff_t>(state_->turn));
  }
  return std::nullopt;
}

}  // namespace lockstep
