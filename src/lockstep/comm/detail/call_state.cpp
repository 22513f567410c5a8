// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/call_state.h"

#include "lockstep/base/text.h"

namespace lockstep::comm {

bool CallState::end(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (ended_)
    return false;
  ended_ = true;
  error_ = std::move(error);
  changed_.notify_all();
  return true;
}

bool CallState::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

void CallState::wait() {
  std::unique_lock lock(mutex_);
  if (!ended_) {
    const auto start = Clock::now();
    changed_.wait(lock, [&] { return ended_; });
    if (job)
      job->recorder.add_exposed(Clock::now() - start);
  }
  if (error_)
    std::rethrow_exception(error_);
}

std::string text_of(const CallState& call) {
  return call.through_store ? cat("gather_text '", call.description.subject, "'")
                            : lockstep::text_of(call.description);
}

}  // namespace lockstep::comm
