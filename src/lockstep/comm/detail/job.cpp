// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/job.h"

#include <random>
#include <thread>
#include <utility>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {

namespace {
constexpr auto kFailureKey = "failure";
}  // namespace

Delay Delay::from_environment() {
  const auto text = env("LOCKSTEP_DEBUG_COMM_DELAY_MS");
  if (!text)
    return {};
  const std::vector<std::string> parts = split(*text, ':');
  const auto low = parse_double(parts.front());
  const auto high = parse_double(parts.back());
  if (parts.size() > 2 || !low || !high || *low < 0 || *high < *low) {
    throw Error({.fault = Fault::Environment,
                 .where = {.subject = "LOCKSTEP_DEBUG_COMM_DELAY_MS"},
                 .problem = "the delay is not understood",
                 .expected = "milliseconds, or LOW:HIGH",
                 .found = *text,
                 .next = "Set it to a number such as 30, or unset it"});
  }
  return {*low, *high};
}

void Job::set_phase(std::string_view phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
}

std::string Job::phase() const {
  const std::lock_guard lock(mutex_);
  return phase_;
}

void Job::delay() const {
  if (delay_.high_ms <= 0)
    return;
  std::random_device seed;
  std::mt19937 random(seed());
  const double milliseconds =
      std::uniform_real_distribution<double>(delay_.low_ms, delay_.high_ms)(random);
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

Failure Job::publish(const Failure& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_)
      return *failure_;
  }
  Failure first = failure;
  try {
    first = failure_from_json(store->set_once(kFailureKey, to_json(failure)));
  } catch (const std::exception& error) {
    log(LogLevel::Warning,
        cat("rank ", rank(), " cannot tell the others of its failure: ", error.what()));
  }
  const std::lock_guard lock(mutex_);
  if (!failure_)
    failure_ = first;
  return *failure_;
}

std::optional<Failure> Job::first_failure(Store& through) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_)
      return failure_;
  }
  const auto text = through.get(kFailureKey);
  if (!text)
    return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (!failure_)
    failure_ = failure_from_json(*text);
  return failure_;
}

void Job::tell_failed(const Failure& failure, bool consequence) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(told_end_, true))
    return;
  agent_.failed(name_of(failure.facts.fault), failure.text, failure.operation, consequence);
}

void Job::tell_finished() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(told_end_, true))
    return;
  agent_.finished();
}

void Job::tell_joined() {
  const std::lock_guard lock(mutex_);
  agent_.joined(rank(), size());
}

void Job::tell_phase() {
  const std::lock_guard lock(mutex_);
  if (told_end_ || told_phase_ == phase_)
    return;
  told_phase_ = phase_;
  agent_.phase(phase_);
}

}  // namespace lockstep::comm
