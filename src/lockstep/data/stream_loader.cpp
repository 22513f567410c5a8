// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/detail/prefetcher.h"
#include "lockstep/data/loader.h"

namespace lockstep {

namespace {

// One worker's share of the stream, read in order by one thread.
detail::Prefetcher::Source source_of(Stream stream, const Reader& reader, std::int64_t epoch) {
  return [stream = std::move(stream),
          reader,
          epoch,
          index = std::int64_t{0}]() mutable -> std::optional<detail::Prefetcher::Job> {
    while (auto examples = stream()) {
      if (!reader.takes(index++))
        continue;
      return [index, epoch, examples = std::move(*examples)] {
        return Batch{.examples = examples, .ids = {index - 1}, .epoch = epoch};
      };
    }
    return std::nullopt;
  };
}

// A worker that no rank has: its seed is the same everywhere.
constexpr Reader kNobody{.rank = -1, .worker = -1};

void check(const StreamPlace& place, const LoaderOptions& options) {
  detail::check_workers(options.workers);
  if (place.num_ranks < 1 || place.rank < 0 || place.rank >= place.num_ranks || place.epoch < 0) {
    throw Error(
        {.fault = Fault::Config,
         .where = {.subject = "loader"},
         .problem = "there is no such place in a stream",
         .expected = "a rank below num_ranks, and an epoch of at least 0",
         .found = cat("rank ", place.rank, " of ", place.num_ranks, ", epoch ", place.epoch),
         .next = "Correct the StreamPlace"});
  }
  if (options.shuffle) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "loader"},
                 .problem = "a stream comes in its own order and cannot be shuffled",
                 .next = "Leave out shuffle"});
  }
}

}  // namespace

struct StreamLoader::State {
  Open open;
  StreamPlace place;
  LoaderOptions options;
  std::vector<std::unique_ptr<detail::Prefetcher>> workers = {};  ///< those with items left
  std::size_t turn = 0;

  void start() {
    workers.clear();
    turn = 0;
    const std::size_t depth =
        std::max<std::size_t>(1, options.prefetch / static_cast<std::size_t>(options.workers));
    for (std::int64_t worker = 0; worker < options.workers; ++worker) {
      const Reader reader{place.rank, place.num_ranks, worker, options.workers};
      const StreamStart start{.epoch = place.epoch,
                              .order_seed = worker_seed(place.seed, kNobody, place.epoch),
                              .seed = worker_seed(place.seed, reader, place.epoch)};
      workers.push_back(std::make_unique<detail::Prefetcher>(
          source_of(open(start), reader, place.epoch), 1, depth, options.timeout));
    }
  }
};

StreamLoader::StreamLoader(Open open, const StreamPlace& place, const LoaderOptions& options) {
  check(place, options);
  state_ = std::make_unique<State>(State{std::move(open), place, options});
  state_->start();
}

StreamLoader::StreamLoader(StreamLoader&&) noexcept = default;
StreamLoader& StreamLoader::operator=(StreamLoader&&) noexcept = default;
StreamLoader::~StreamLoader() = default;

void StreamLoader::set_epoch(std::int64_t epoch) {
  StreamPlace place = state_->place;
  place.epoch = epoch;
  check(place, state_->options);
  state_->place = place;
  state_->start();
}

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
