// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/world_state.h"

#include <exception>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/detail/poll.h"

namespace lockstep::comm {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kOutKey = "out";  // ranks that finished or failed

std::vector<GlobalRank> all_ranks(int size) {
  std::vector<GlobalRank> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.push_back({rank});
  return ranks;
}

}  // namespace

WorldState::WorldState(std::shared_ptr<Job> job) : job_(std::move(job)) {
  if (job_->size() > 1)
    watchdog_ = std::make_unique<Watchdog>(job_);
  all_ = add_group({.name = "all", .ranks = all_ranks(job_->size()), .me = job_->rank()});
}

WorldState::~WorldState() {
  if (!ended_) {
    const bool thrown = std::uncaught_exceptions() > 0;
    try {
      fail(Error(
          {.fault = Fault::Internal,
           .where = {.rank = job_->rank()},
           .problem =
               thrown ? "an exception ended this rank" : "the world was destroyed before finish()",
           .next =
               thrown
                   ? "Catch it and call World::fail(error), so that every rank can say what it was"
                   : "Call World::finish() when a rank did all it had to"}));
    } catch (const std::exception& error) {
      log(LogLevel::Warning, error.what());
    }
  }
  for (const auto& [key, group] : groups_)
    group->close();
  if (watchdog_)
    watchdog_->stop();
}

std::shared_ptr<GroupState> WorldState::add_group(GroupState::Members members) {
  const std::lock_guard lock(mutex_);
  auto& group = groups_[members.key()];
  if (group)
    return group;
  group = std::make_shared<GroupState>(job_, std::move(members));
  if (watchdog_)
    watchdog_->watch(group);
  group->start();
  return group;
}

void WorldState::finish() {
  if (ended_)
    return;
  for (const auto& [key, group] : groups_)
    group->close();
  throw_lost_failure();
  ended_ = true;
  if (watchdog_) {
    watchdog_->leave(*job_->store);
    count_out();
    if (job_->serves_store)
      wait_for_others();
  }
  job_->tell_finished();
}

// A call whose handle was dropped, or never waited for, may have failed without anybody's notice.
void WorldState::throw_lost_failure() {
  for (const auto& [key, group] : groups_) {
    const std::exception_ptr failure = group->failure();
    if (!failure)
      continue;
    try {
      std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      fail(error);
      throw;
    }
  }
}

void WorldState::count_out() { job_->store->add(kOutKey, 1); }

// Whoever serves the store must not take it away from ranks that still work.
void WorldState::wait_for_others() {
  const auto deadline = Clock::now() + job_->timeout;
  auto report = Clock::now() + std::chrono::seconds(5);
  for (Poll poll; job_->store->add(kOutKey, 0) < job_->size(); poll.pause()) {
    int gone = 0;
    for (const ProcessCard& card : job_->cards)
      gone += is_gone(card, job_->own_card) ? 1 : 0;
    if (job_->store->add(kOutKey, 0) + gone >= job_->size())
      return;
    if (Clock::now() > deadline) {
      log(LogLevel::Warning,
          "rank 0, which serves the store, ends before all ranks finished: the timeout passed");
      return;
    }
    if (Clock::now() > report) {
      log(LogLevel::Info, "rank 0 has finished and serves the store until the others have too");
      report += std::chrono::seconds(5);
    }
  }
}

void WorldState::fail(const std::exception& error) {
  if (ended_)
    return;
  ended_ = true;
  Failure failure = failure_of(job_->rank(), error);
  failure.operation = last_operation();
  failure.phase = job_->phase();
  const Failure first = watchdog_ ? job_->publish(failure) : failure;
  job_->tell_failed(failure, failure.facts.fault == Fault::Peer && !job_->found_late_rank);
  for (const auto& [key, group] : groups_)
    group->fail(std::make_exception_ptr(Error(failure.facts)));
  if (!watchdog_)
    return;
  try {
    count_out();
    // The others look once a second.
    const auto until = Clock::now() + std::chrono::milliseconds(2500);
    while (job_->serves_store && job_->store->add(kOutKey, 0) < job_->size() &&
           Clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  } catch (const Error& lost) {
    log(LogLevel::Debug, lost.what());
  }
}

std::string WorldState::standing() const {
  std::string text = cat("rank ", job_->rank(), ": phase ", job_->phase());
  const std::lock_guard lock(mutex_);
  for (const auto& [key, group] : groups_) {
    const GroupProgress progress = group->progress();
    text += cat("; ", group->label(), ": ");
    text +=
        progress.current_name.empty()
            ? cat("last was ", progress.finished_name.empty() ? "nothing" : progress.finished_name)
            : cat("in ", progress.current_name);
  }
  return text;
}

std::string WorldState::last_operation() const {
  std::string last;
  for (const auto& [key, group] : groups_) {
    const GroupProgress progress = group->progress();
    const std::string& name =
        progress.current_name.empty() ? progress.finished_name : progress.current_name;
    if (!name.empty())
      last = cat(name, " on ", group->label());
  }
  return last;
}

}  // namespace lockstep::comm
