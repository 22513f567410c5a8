// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/detail/prefetcher.h"

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::detail {

using Clock = std::chrono::steady_clock;

struct Prefetcher::State {
  struct Result {
    Batch batch;
    std::exception_ptr error;
  };

  Source source;
  std::size_t depth;
  std::mutex source_mutex;  // held while a ticket is drawn; taken before `mutex`
  std::mutex mutex;         // guards all below
  std::condition_variable room;
  std::condition_variable ready;
  std::map<std::size_t, Result> results;
  std::size_t drawn = 0;
  std::size_t handed_out = 0;
  std::optional<std::size_t> end;
  bool stop = false;

  bool draw(std::size_t& ticket, std::optional<Job>& job, std::exception_ptr& error);
  void work();
};

// The next ticket and its job; false when there is nothing more to do.
bool Prefetcher::State::draw(std::size_t& ticket,
                             std::optional<Job>& job,
                             std::exception_ptr& error) {
  const std::lock_guard in_order(source_mutex);
  {
    std::unique_lock lock(mutex);
    room.wait(lock, [this] {
      return stop || end || drawn < handed_out + depth;
    });  // stop comes with the destructor
    if (stop || end)
      return false;
    ticket = drawn++;
  }
  try {
    job = source();
  } catch (...) {
    error = std::current_exception();
  }
  if (job && !error)
    return true;
  const std::lock_guard lock(mutex);
  end = error ? ticket + 1 : ticket;
  ready.notify_all();
  return error != nullptr;
}

void Prefetcher::State::work() {
  while (true) {
    std::size_t ticket = 0;
    std::optional<Job> job;
    Result result;
    if (!draw(ticket, job, result.error))
      return;
    try {
      if (job)
        result.batch = (*job)();
    } catch (...) {
      result.error = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    results.emplace(ticket, std::move(result));
    ready.notify_all();
  }
}

Prefetcher::Prefetcher(Source source,
                       std::int64_t num_threads,
                       std::size_t depth,
                       std::chrono::milliseconds timeout)
    : state_(std::make_shared<State>()), timeout_(timeout) {
  state_->source = std::move(source);
  state_->depth = depth;
  for (std::int64_t i = 0; i < num_threads; ++i) {
    threads_.emplace_back([state = state_] { state->work(); });
  }
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->room.notify_all();
  for (std::thread& thread : threads_)
    gave_up_ ? thread.detach() : thread.join();
}

std::optional<Batch> Prefetcher::next() {
  const auto start = Clock::now();
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  const std::size_t ticket = state.handed_out;
  const auto settled = [&] {
    return state.results.contains(ticket) || (state.end && ticket >= *state.end);
  };
  if (!state.ready.wait_until(lock, start + timeout_, settled)) {
    gave_up_ = true;
    throw Error({.fault = Fault::Environment,
                 .where = {.subject = "loader"},
                 .problem = cat("batch ",
                                ticket,
                                " was not ready within ",
                                human_seconds(std::chrono::duration<double>(timeout_).count())),
                 .next = "Look for a data set or disk that hangs, or raise the timeout"});
  }
  const auto found = state.results.find(ticket);
  if (found == state.results.end())
    return std::nullopt;
  if (found->second.error)
    std::rethrow_exception(found->second.error);
  Batch batch = std::move(found->second.batch);
  state.results.erase(found);
  ++state.handed_out;
  state.room.notify_all();
  batch.waited = Clock::now() - start;
  return batch;
}

}  // namespace lockstep::detail
