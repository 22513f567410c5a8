// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/loader.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/detail/prefetcher.h"

namespace lockstep {

namespace {

DistributedSampler own_sampler(std::int64_t num_samples,
                               const Dealing& dealing,
                               const LoaderOptions& options) {
  return DistributedSampler(
      {.num_samples = num_samples, .order = options.shuffle.value_or(Order::Sequential)}, dealing);
}

LoaderOptions without_shuffle(LoaderOptions options) {
  options.shuffle.reset();
  return options;
}

std::size_t depth_of(const LoaderOptions& options) {
  return std::max(options.prefetch, static_cast<std::size_t>(options.workers));
}

// What the threads share: it lives as long as one of them runs.
struct Feed {
  Dataset dataset;
  DistributedSampler sampler;
  std::int64_t workers;
  std::optional<Step> step = std::nullopt;
  std::size_t micro_batch = 0;  ///< the next one of `step`
};

// The next micro batch as a job. The worker of a batch follows from its place in the epoch, so that
// a resumed run draws the same random numbers, whichever thread has the job.
std::optional<detail::Prefetcher::Job> next_job(const std::shared_ptr<Feed>& feed) {
  if (!feed->step || feed->micro_batch == feed->step->micro_batches.size()) {
    feed->step = feed->sampler.next();
    feed->micro_batch = 0;
    if (!feed->step)
      return std::nullopt;
  }
  Step& step = *feed->step;
  const std::size_t k = feed->micro_batch++;
  Batch batch{.ids = std::move(step.micro_batches[k]),
              .epoch = step.epoch,
              .micro_batch = static_cast<std::int64_t>(k),
              .num_micro_batches = std::ssize(step.micro_batches),
              .after = step.after};
  const Dealing& dealing = feed->sampler.dealing();
  const std::int64_t index =
      step.in_epoch / dealing.global() * dealing.accumulation + batch.micro_batch;
  const Reader reader{dealing.rank, dealing.num_ranks, index % feed->workers, feed->workers};
  const std::uint64_t seed =
      batch_seed(worker_seed(feed->sampler.options().seed, reader, step.epoch), index);
  return [feed, batch = std::move(batch), reader, seed]() mutable {
    batch.examples =
        feed->dataset({.ids = batch.ids, .epoch = batch.epoch, .reader = reader, .seed = seed});
    return std::move(batch);
  };
}

}  // namespace

void detail::check_workers(std::int64_t workers) {
  if (workers >= 1)
    return;
  throw Error({.fault = Fault::Config,
               .where = {.subject = "loader"},
               .problem = "nobody would prepare batches",
               .expected = "1 worker or more",
               .found = cat(workers),
               .next = "Set LoaderOptions::workers"});
}

struct DataLoader::State {
  std::shared_ptr<Feed> feed;
  LoaderOptions options;
  SamplerState done;  ///< after the last whole step that was handed out
  std::unique_ptr<detail::Prefetcher> prefetcher = nullptr;
  bool compared = false;  ///< with the other ranks, since the position was last set

  void start() {
    prefetcher = std::make_unique<detail::Prefetcher>([feed = feed] { return next_job(feed); },
                                                      options.workers,
                                                      depth_of(options),
                                                      options.timeout);
  }
  /// Ends the threads, so that the sampler is ours alone, moves it, and starts anew.
  void move_to(const std::function<void(DistributedSampler&)>& move) {
    prefetcher.reset();
    move(feed->sampler);
    feed->step.reset();
    done = feed->sampler.state();
    compared = false;
    start();
  }
  void compare_once() {
    if (compared || !options.gather)
      return;
    check_same_sampling(sampler_here(), options.gather);
    compared = true;
  }
  /// A sampler that stands where the handed-out batches end.
  DistributedSampler sampler_here() const {
    DistributedSampler sampler(feed->sampler.options(), feed->sampler.dealing());
    sampler.restore(done);
    return sampler;
  }
};

DataLoader::DataLoader(Dataset dataset, DistributedSampler sampler, const LoaderOptions& options) {
  if (options.shuffle) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "loader"},
                 .problem = "a sampler and shuffle are both given, but one place decides the order",
                 .next = "Leave out shuffle and set the sampler's order"});
  }
  detail::check_workers(options.workers);
  const SamplerState start = sampler.state();
  state_ = std::make_unique<State>(State{
      .feed = std::make_shared<Feed>(Feed{std::move(dataset), std::move(sampler), options.workers}),
      .options = options,
      .done = start});
  state_->start();
}

DataLoader::DataLoader(Dataset dataset,
                       std::int64_t num_samples,
                       const Dealing& dealing,
                       const LoaderOptions& options)
    : DataLoader(std::move(dataset),
                 own_sampler(num_samples, dealing, options),
                 without_shuffle(options)) {}

DataLoader::DataLoader(DataLoader&&) noexcept = default;
DataLoader& DataLoader::operator=(DataLoader&&) noexcept = default;
DataLoader::~DataLoader() = default;

std::optional<Batch> DataLoader::next() {
  state_->compare_once();
  auto batch = state_->prefetcher->next();
  if (batch && batch->micro_batch + 1 == batch->num_micro_batches)
    state_->done = batch->after;
  return batch;
}

const SamplerState& DataLoader::state() const { return state_->done; }

void DataLoader::restore(const SamplerState& state) {
  state_->move_to([&state](DistributedSampler& sampler) { sampler.restore(state); });
}

void DataLoader::set_epoch(std::int64_t epoch) {
  state_->move_to([epoch](DistributedSampler& sampler) { sampler.set_epoch(epoch); });
}

std::int64_t DataLoader::steps_per_epoch() const {
  return state_->sampler_here().steps_per_epoch();
}

std::int64_t DataLoader::steps_left() const { return state_->sampler_here().steps_left(); }

}  // namespace lockstep
