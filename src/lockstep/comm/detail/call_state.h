// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include "lockstep/comm/backend/backend.h"
#include "lockstep/comm/detail/job.h"
#include "lockstep/comm/pure/call_description.h"

namespace lockstep::comm {

/// One call, shared by its handle, its group's worker and the watchdog: whoever ends it first decides how it ended.
class CallState {
 public:
  using Clock = std::chrono::steady_clock;

  CallDescription description;
  std::uint64_t sequence = 0;
  std::vector<at::Tensor> tensors;  ///< kept alive until the call ends
  /// Where the caller's stream stood, for tensors of a device that works behind the caller's back.
  std::optional<c10::Event> inputs;
  /// A collective: runs it to its end.
  std::function<void(Backend&)> run;
  /// A transfer between two ranks: posts it. Exactly one of the two is set, except where `through_store`.
  std::function<std::unique_ptr<Transfer>(Backend&)> post;
  /// An exchange of texts through the store, made by the caller itself: numbered among the collectives, never queued. Only
  /// the subject of its description counts.
  bool through_store = false;
  Clock::time_point enqueued = Clock::now();
  /// When it began to block its queue: its deadline counts from here. Atomic: a lane sets it while the watchdog looks.
  std::atomic<Clock::time_point> started{};

  /// Blocks until the device has made what the caller had asked for before this call.
  void wait_for_inputs() const {
    if (inputs)
      inputs->synchronize();
  }

  /// Ends the call, with an error or none. False when it had ended already.
  bool end(std::exception_ptr error);
  bool ended() const;
  /// Blocks until the call ended; throws its error. The watchdog ends every call at its deadline.
  void wait();

  std::shared_ptr<Job> job;  ///< for its recorder; none for a call that ended when it was made

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::exception_ptr error_;
};

/// What members of a group compare: "all_reduce sum f32 [4] 'x'", "gather_text 'info'".
std::string text_of(const CallState& call);

}  // namespace lockstep::comm
