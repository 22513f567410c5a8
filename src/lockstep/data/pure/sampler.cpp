// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/pure/sampler.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace {

std::string describe(const Dealing& dealing) {
  return cat(dealing.num_ranks,
             " ranks x ",
             dealing.micro,
             " samples x ",
             dealing.accumulation,
             " micro batches");
}

void check(const SamplerOptions& options, const Dealing& dealing) {
  if (dealing.micro < 1 || dealing.accumulation < 1 || dealing.num_ranks < 1 || dealing.rank < 0 ||
      dealing.rank >= dealing.num_ranks) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "sampler"},
                 .problem = "samples cannot be dealt like this",
                 .expected = "micro, accumulation and num_ranks of at least 1, and a rank below "
                             "num_ranks",
                 .found = cat("micro ",
                              dealing.micro,
                              ", accumulation ",
                              dealing.accumulation,
                              ", rank ",
                              dealing.rank,
                              " of ",
                              dealing.num_ranks),
                 .next =
                     "Correct the Dealing; with many ranks check a micro batch that was divided "
                     "by their number"});
  }
  if (options.num_samples < 1) {
    throw Error({.fault = Fault::Config,
                 .where = {.rank = static_cast<int>(dealing.rank), .subject = "sampler"},
                 .problem = "the data set has no samples",
                 .next = "Check the data files and the sequence length"});
  }
  if (options.tail == Tail::Drop && options.num_samples < dealing.global()) {
    throw Error({.fault = Fault::Config,
                 .where = {.rank = static_cast<int>(dealing.rank), .subject = "sampler"},
                 .problem = cat("every epoch would be empty: ",
                                options.num_samples,
                                " samples, ",
                                dealing.num_ranks,
                                " ranks, and what does not fill a step is dropped"),
                 .expected = cat(dealing.global(), " samples for a step of ", describe(dealing)),
                 .found = cat(options.num_samples, " samples"),
                 .next = "Use a smaller batch, fewer ranks, more data, or data.drop_last = false"});
  }
}

}  // namespace

DistributedSampler::DistributedSampler(const SamplerOptions& options, const Dealing& dealing)
    : options_(options), dealing_(dealing), state_{.seed = options.seed} {
  check(options, dealing);
}

DistributedSampler::DistributedSampler(DistributedSampler&& other) noexcept
    : options_(other.options_),
      dealing_(other.dealing_),
      state_(other.state_),
      permutation_(std::move(other.permutation_)),
      begun_(other.begun_) {
  other.moved_from_ = true;
}

void DistributedSampler::check_owned() const {
  if (!moved_from_)
    return;
  throw Error({.fault = Fault::Usage,
               .where = {.subject = "sampler"},
               .problem = "this sampler was handed over and no longer decides the order",
               .next = "Call the loader that has it"});
}

void DistributedSampler::restore(const SamplerState& state) {
  check_owned();
  if (state.seed != options_.seed) {
    throw Error({.fault = Fault::Mismatch,
                 .where = {.subject = "sampler"},
                 .problem = "the saved position belongs to another order of the data",
                 .expected = cat("seed ", options_.seed),
                 .found = cat("seed ", state.seed),
                 .next = "Resume with the seed of the run that saved it"});
  }
  if (state.epoch < 0 || state.consumed < 0) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = "sampler"},
                 .problem = "a position in the data is not negative",
                 .found = cat("epoch ", state.epoch, " sample ", state.consumed),
                 .next = "Restore a state that state() gave"});
  }
  state_ = state;
  permutation_.reset();
  begun_.reset();
  if (state_.consumed > 0 && steps_from(state_.consumed) == 0)
    state_ = {state.seed, state.epoch + 1, 0};
}

void DistributedSampler::set_epoch(std::int64_t epoch) {
  check_owned();
  if (epoch < 0) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = "sampler"},
                 .problem = "epochs count from 0",
                 .found = cat(epoch),
                 .next = "Set the number of a past or coming epoch"});
  }
  state_ = {options_.seed, epoch, 0};
  permutation_.reset();
}

std::int64_t DistributedSampler::steps_from(std::int64_t consumed) const {
  const std::int64_t left = std::max<std::int64_t>(0, options_.num_samples - consumed);
  const std::int64_t global = dealing_.global();
  return options_.tail == Tail::Drop ? left / global : (left + global - 1) / global;
}

std::int64_t DistributedSampler::steps_per_epoch() const { return steps_from(0); }

std::int64_t DistributedSampler::steps_left() const {
  check_owned();
  if (!options_.num_epochs) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = "sampler"},
                 .problem = "a sampler without num_epochs has no end"});
  }
  if (state_.epoch >= *options_.num_epochs)
    return 0;
  return steps_from(state_.consumed) +
         (*options_.num_epochs - state_.epoch - 1) * steps_per_epoch();
}

void DistributedSampler::begin_epoch() {
  if (state_.consumed == 0 && begun_ == state_.epoch && options_.order == Order::Shuffled) {
    log(LogLevel::Warning,
        cat("epoch ",
            state_.epoch,
            " begins a second time in a row: the data comes in the same order again"));
  }
  begun_ = state_.epoch;
  if (options_.order == Order::Shuffled) {
    permutation_.emplace(static_cast<std::uint64_t>(options_.num_samples),
                         static_cast<std::uint64_t>(options_.seed),
                         static_cast<std::uint64_t>(state_.epoch));
  }
}

std::int64_t DistributedSampler::sample_at(std::int64_t position) const {
  const std::int64_t wrapped =
      position % options_.num_samples;  // past the end only with Tail::Repeat
  return permutation_
             ? static_cast<std::int64_t>((*permutation_)(static_cast<std::uint64_t>(wrapped)))
             : wrapped;
}

std::optional<Step> DistributedSampler::next() {
  check_owned();
  if (options_.num_epochs && state_.epoch >= *options_.num_epochs)
    return std::nullopt;
  if (state_.consumed == 0 || (options_.order == Order::Shuffled && !permutation_))
    begin_epoch();

  const std::int64_t begin = state_.consumed;
  const std::int64_t end = options_.tail == Tail::Once
                               ? std::min(begin + dealing_.global(), options_.num_samples)
                               : begin + dealing_.global();
  Step step{.epoch = state_.epoch, .in_epoch = begin};
  const std::int64_t per_leaf_row = dealing_.micro * dealing_.num_ranks;
  for (std::int64_t row = begin; row < end;
       row += per_leaf_row) {  // row: micro batch k of all ranks
    std::vector<std::int64_t>& ids = step.micro_batches.emplace_back();
    const std::int64_t first = row + dealing_.rank * dealing_.micro;
    for (std::int64_t at = first; at < std::min(first + dealing_.micro, end); ++at)
      ids.push_back(sample_at(at));
  }
  state_.consumed = std::min(end, options_.num_samples);
  if (steps_from(state_.consumed) == 0)
    state_ = {options_.seed, state_.epoch + 1, 0};
  step.after = state_;
  return step;
}

void check_updates(std::int64_t done, std::int64_t planned) {
  if (done == planned)
    return;
  throw Error({.fault = Fault::Internal,
               .where = {.subject = "training"},
               .problem = "the number of updates differs from the plan",
               .expected = cat(planned, " updates"),
               .found = cat(done),
               .next = "Do not use this model; report it with the configuration and the checkpoint "
                       "that was resumed"});
}

void check_same_sampling(const DistributedSampler& sampler,
                         const std::function<std::vector<std::string>(std::string_view)>& gather) {
  const SamplerOptions& options = sampler.options();
  const Dealing& dealing = sampler.dealing();
  const SamplerState& state = sampler.state();
  const std::string mine = cat("seed ",
                               options.seed,
                               ", ",
                               options.num_samples,
                               " samples, ",
                               options.order == Order::Shuffled ? "shuffled" : "in order",
                               ", tail ",
                               static_cast<int>(options.tail),
                               ", dealt to ",
                               describe(dealing),
                               ", from epoch ",
                               state.epoch,
                               " sample ",
                               state.consumed);
  const std::vector<std::string> all = gather(mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0])
      continue;
    throw Error({.fault = Fault::Mismatch,
                 .where = {.rank = static_cast<int>(dealing.rank), .subject = "sampler"},
                 .problem = "ranks would take the data in different orders",
                 .expected = cat(all[0], " (rank 0)"),
                 .found = cat(all[rank], " (rank ", rank, ")"),
                 .next = "Give every rank the same seed and data; seeds of a rank's own are for "
                         "augmentation only"});
  }
}

}  // namespace lockstep
