// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/watchdog.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/detail/agreement.h"
#include "lockstep/comm/detail/diagnosis.h"

namespace lockstep::comm {

namespace {

using Milliseconds = std::chrono::milliseconds;

std::string timeout_text(Milliseconds timeout) {
  return human_seconds(std::chrono::duration<double>(timeout).count());
}

// Who is missing at `call`, and where that rank is.
Facts deadline_facts(GroupState& group,
                     const CallState& call,
                     const std::vector<RankState>& states) {
  Facts facts{.fault = Fault::Peer,
              .where = group.where(call),
              .problem = cat("not done after ", timeout_text(group.job().timeout)),
              .next =
                  "Look at what the missing rank does there, or raise comm.timeout_seconds if it "
                  "needs longer"};
  std::vector<std::string> texts;
  if (call.post) {
    const auto other = static_cast<std::size_t>(call.description.root);
    texts.push_back(
        missing_text(states.at(other), group.key(), cat("the other side of ", group.name(call))));
  } else {
    const std::vector<int> missing = missing_from(states, group.key(), call.sequence);
    for (const RankState& state : states) {
      if (std::count(missing.begin(), missing.end(), state.rank) > 0) {
        texts.push_back(missing_text(state, group.key(), group.name(call)));
      }
    }
  }
  if (texts.empty())
    texts.emplace_back("every rank is there: the network, or a machine, is slow");
  facts.problem += cat("; ", cut_list(texts, 8));
  return facts;
}

}  // namespace

Watchdog::Watchdog(std::shared_ptr<Job> job)
    : job_(std::move(job)),
      interval_(std::clamp<Milliseconds>(job_->timeout / 4, Milliseconds(50), Milliseconds(1000))),
      tick_(std::clamp<Milliseconds>(job_->timeout / 20, Milliseconds(10), Milliseconds(100))),
      thread_([this] { run(); }) {}

Watchdog::~Watchdog() { stop(); }

void Watchdog::watch(std::shared_ptr<GroupState> group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
}

void Watchdog::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable())
    thread_.join();
}

std::vector<std::shared_ptr<GroupState>> Watchdog::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

void Watchdog::run() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, tick_, [&] { return stopping_; }))
        return;
    }
    try {
      look(Clock::now());
    } catch (const std::exception& error) {
      const Failure failure = failure_of(job_->rank(), error);
      if (!std::exchange(store_lost_, true))
        fail_all(failure);
    }
  }
}

void Watchdog::look(Clock::time_point now) {
  const bool due = now >= next_exchange_ && !store_lost_;
  if (due) {
    next_exchange_ = now + interval_;
    exchange();
  }
  for (const auto& group : groups()) {
    const std::shared_ptr<CallState> call = group->current();
    if (!call || group->broken())
      continue;
    if (now - call->started.load() > job_->timeout) {
      check_deadline(*group, *call, now);
    } else if (due && now - call->started.load() >= interval_) {
      check_peers(*group, *call);
    }
  }
}

void Watchdog::exchange() {
  publish(*job_->watch_store);
  job_->tell_phase();
  const auto failure = job_->first_failure(*job_->watch_store);
  if (failure && failure->rank != job_->rank())
    fail_all(*failure);
}

void Watchdog::publish(Store& store) {
  const std::lock_guard lock(publish_mutex_);
  RankState state{
      .rank = job_->rank(), .beat = ++beat_, .phase = job_->phase(), .left = left_, .groups = {}};
  for (const auto& group : groups())
    state.groups.push_back(group->progress());
  store.set(cat("state/", job_->rank()), to_json(state));
}

void Watchdog::leave(Store& store) {
  {
    const std::lock_guard lock(publish_mutex_);
    left_ = true;
  }
  publish(store);
}

void Watchdog::check_deadline(GroupState& group, const CallState& call, Clock::time_point) {
  publish(*job_->watch_store);
  job_->found_late_rank = true;
  found(group, call, deadline_facts(group, call, member_states(group, *job_->watch_store)));
}

void Watchdog::check_peers(GroupState& group, const CallState& call) {
  const std::vector<RankState> states = member_states(group, *job_->watch_store);
  if (const auto difference = find_disagreement(states, group.key())) {
    Where where = group.where(call);
    if (call.post || difference->sequence != call.sequence)
      where.operation = cat("call #", difference->sequence);
    found(group, call, mismatch(group, std::move(where), *difference));
    return;
  }
  if (auto dead = dead_member(group, group.where(call), "")) {
    found(group, call, std::move(*dead));
    return;
  }
  if (call.post)
    return;
  const std::vector<int> missing = missing_from(states, group.key(), call.sequence);
  for (const RankState& state : states) {
    if (!state.left || std::count(missing.begin(), missing.end(), state.rank) == 0)
      continue;
    Facts facts{.fault = Fault::Peer,
                .where = group.where(call),
                .problem = missing_text(state, group.key(), group.name(call)),
                .next = "Make every rank do the same number of steps, or end them together"};
    found(group, call, std::move(facts));
    return;
  }
}

void Watchdog::found(GroupState& group, const CallState& call, Facts facts) {
  const Error error(std::move(facts));
  Failure failure = failure_of(job_->rank(), error);
  failure.operation = cat(group.name(call), " on ", group.label());
  failure.phase = job_->phase();
  const Failure first = job_->publish(failure);
  if (first.rank == job_->rank()) {
    group.fail(std::make_exception_ptr(error));
    return;
  }
  job_->found_late_rank = false;
  group.fail(std::make_exception_ptr(Error(consequence_of(first, group.where(call)))));
}

void Watchdog::fail_all(const Failure& failure) {
  for (const auto& group : groups()) {
    if (group->broken())
      continue;
    const std::shared_ptr<CallState> call = group->current();
    const Where where =
        call ? group->where(*call) : Where{.rank = job_->rank(), .group = group->label()};
    const bool own = failure.rank == job_->rank();
    group->fail(
        std::make_exception_ptr(Error(own ? failure.facts : consequence_of(failure, where))));
  }
}

}  // namespace lockstep::comm
