// SPDX-License-Identifier: Apache-2.0
// Sends and receives of a group. The worker posts the sends; two more threads, made when they are first needed, wait for the
// sends and post and wait for the receives. So a send is never in the way of a receive, whichever was queued first: whatever
// would work if sends were buffered works.
#include <ATen/core/grad_mode.h>

#include "lockstep/comm/detail/agreement.h"
#include "lockstep/comm/detail/group_state.h"

namespace lockstep::comm {

void GroupState::post_transfer(const std::shared_ptr<CallState>& call) {
  if (broken())
    return;
  job_->delay();
  const bool send = call->description.operation == Operation::Send;
  Posted posted{.call = call, .transfer = nullptr};
  call->started = CallState::Clock::now();
  call->wait_for_inputs();
  if (send) {
    announce_send(*this, *call);
    posted.transfer = call->post(*backend_);
  }
  const std::lock_guard lock(mutex_);
  Lane& lane = send ? sends_ : recvs_;
  lane.queue.push_back(std::move(posted));
  if (!lane.thread.joinable()) {
    ++running_;
    ++lanes_running_;
    lane.thread = std::thread([self = shared_from_this(), &lane] { self->finish_transfers(lane); });
  }
  changed_.notify_all();
}

void GroupState::finish_transfers(Lane& lane) {
  const at::NoGradGuard no_grad;
  const Running running(*this);
  for (;;) {
    Posted* posted = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] {
        return !lane.queue.empty() || failure_ || (closing_ && running_ == lanes_running_);
      });
      if (failure_ || lane.queue.empty()) {
        --lanes_running_;
        return;
      }
      posted = &lane.queue.front();  // a deque: stays where it is while others are added
    }
    const std::shared_ptr<CallState> call = posted->call;
    try {
      if (!posted->transfer) {
        check_recv(*this, *call);
        if (call->ended())
          return;
        posted->transfer = call->post(*backend_);
      }
      posted->transfer->wait();
    } catch (...) {
      break_at(*call);
      return;
    }
    finish(call);
    const std::lock_guard lock(mutex_);
    lane.queue.pop_front();
    // The time that it waited behind others does not count.
    if (!lane.queue.empty())
      lane.queue.front().call->started = CallState::Clock::now();
    changed_.notify_all();
  }
}

void GroupState::wait_for_transfers() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return (sends_.queue.empty() && recvs_.queue.empty()) || failure_; });
}

}  // namespace lockstep::comm
