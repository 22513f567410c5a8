// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/group_state.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/detail/agreement.h"
#include "lockstep/comm/detail/diagnosis.h"

namespace lockstep::comm {

namespace {
// Of the calls whose texts are published: a rank can be ahead of others by calls that end in the transport's buffers.
constexpr std::size_t kMostEntered = 16;

std::string ranks_text(const std::vector<GlobalRank>& ranks) {
  std::vector<std::string> texts;
  for (const GlobalRank rank : ranks)
    texts.push_back(cat(rank.value));
  return join(texts, " ");
}

// Which call this is, as messages name it: collectives are numbered per group, transfers per pair of ranks.
std::string name_of_call(const CallState& call, const GroupState::Members& members) {
  if (call.through_store)
    return cat("gather_text #", call.sequence);
  const std::string name = call_name(call.description.operation, call.sequence);
  if (!call.post)
    return name;
  const int other = members.ranks.at(static_cast<std::size_t>(call.description.root)).value;
  return cat(
      name, call.description.operation == Operation::Send ? " to rank " : " from rank ", other);
}
}  // namespace

std::string GroupState::Members::key() const { return cat(name, "/", ranks_text(ranks)); }
std::string GroupState::Members::label() const {
  if (ranks.size() <= 16)
    return cat(name, " (ranks ", ranks_text(ranks), ")");
  const std::vector<GlobalRank> first(ranks.begin(), ranks.begin() + 14);
  return cat(name, " (ranks ", ranks_text(first), " and ", ranks.size() - 14, " more)");
}

GroupState::GroupState(std::shared_ptr<Job> job, Members members)
    : job_(std::move(job)),
      members_(std::move(members)),
      key_(members_.key()),
      label_(members_.label()) {}

GroupState::~GroupState() = default;

GroupState::Running::~Running() {
  const std::lock_guard lock(group_.mutex_);
  --group_.running_;
  group_.changed_.notify_all();
}

void GroupState::start() {
  if (size() == 1)
    return;
  auto call = std::make_shared<CallState>();
  call->description = {.operation = Operation::Connect, .subject = key_};
  call->run = [this](Backend&) { LOCKSTEP_ASSERT(backend_ != nullptr); };
  call->job = job_;
  queue_.push_back(call);
  connecting_ = call;
  ++running_;
  worker_ = std::thread([self = shared_from_this()] { self->work(); });
}

void GroupState::wait_until_connected() {
  if (connecting_)
    connecting_->wait();
}

std::shared_ptr<CallState> GroupState::enqueue(std::shared_ptr<CallState> call) {
  call->job = job_;
  const std::lock_guard lock(mutex_);
  call->sequence = call->post ? next_transfer(call->description) : next_sequence_++;
  if (!call->post)
    history_.add(call->description);
  if (refuse(*call))
    return call;
  queue_.push_back(call);
  changed_.notify_all();
  return call;
}

// Ends a call that comes too late for the group. The lock is held.
bool GroupState::refuse(CallState& call) {
  if (!failure_ && !closing_)
    return false;
  call.end(failure_ ? failure_
                    : std::make_exception_ptr(
                          Error({.fault = Fault::Usage,
                                 .where = where(call),
                                 .problem = "the world of this group is gone",
                                 .next = "Keep the World alive while its groups are used"})));
  return true;
}

std::shared_ptr<CallState> GroupState::begin_exchange(std::string_view subject) {
  auto call = std::make_shared<CallState>();
  call->through_store = true;
  call->description.subject = subject;
  call->started = CallState::Clock::now();
  const std::lock_guard lock(mutex_);
  call->sequence = next_sequence_++;
  if (refuse(*call))
    return call;
  exchange_ = call;
  note_entered(*call);
  return call;
}

void GroupState::end_exchange(CallState& call) {
  {
    const std::lock_guard lock(mutex_);
    if (exchange_.get() == &call)
      exchange_ = nullptr;
    // Collectives that were queued before it may still run.
    if (!current_ && queue_.empty() && finished_ < call.sequence) {
      finished_ = call.sequence;
      finished_name_ = name(call);
    }
  }
  call.end(nullptr);
}

void GroupState::note_entered(const CallState& call) {
  entered_.push_back({.sequence = call.sequence, .text = text_of(call)});
  if (entered_.size() > kMostEntered)
    entered_.pop_front();
}

std::uint64_t GroupState::next_transfer(const CallDescription& call) {
  return ++transfer_numbers_[{call.operation, call.root}];
}

void GroupState::work() {
  const at::NoGradGuard no_grad;
  const Running running(*this);
  for (;;) {
    std::shared_ptr<CallState> call;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !queue_.empty() || closing_ || failure_; });
      if (failure_ || queue_.empty())
        return;
      call = queue_.front();
      queue_.pop_front();
      taken_ = call;
    }
    try {
      if (call->post) {
        post_transfer(call);
      } else {
        wait_for_transfers();
        run_call(call);
      }
    } catch (...) {
      break_at(*call);
      return;
    }
  }
}

void GroupState::run_call(const std::shared_ptr<CallState>& call) {
  if (broken())
    return;
  begin(call);
  job_->delay();
  if (call->description.operation == Operation::Connect) {
    agree_on(*this, *call);
    connect();
  } else if (backend_->compares(call->description)) {
    compare(*call);
  } else {
    std::string text = text_of(*call);
    if (!agreed_.contains(text)) {
      agree_on(*this, *call);
      agreed_.insert(std::move(text));
    }
  }
  if (call->ended())
    return;  // the watchdog was first
  call->wait_for_inputs();
  call->run(*backend_);
  finish(call);
}

void GroupState::connect() {
  const Meeting meeting{
      .store = job_->store,
      .key = cat(key_, "/"),
      .host = job_->host,
      .rank = members_.me,
      .size = size(),
      // The watchdog ends a call at its deadline and says why; the transport only must not wait for ever.
      .timeout = job_->timeout + std::chrono::seconds(5),
      .transport = job_->transport,
      .heap = job_->heap,
      .stop = [weak = weak_from_this()] {
        const auto group = weak.lock();
        return !group || group->broken();
      }};
  backend_ = connect_by_device(meeting);
}

void GroupState::compare(const CallState& call) {
  auto found = backend_->compare(
      call.sequence, text_of(call), call.tensors.empty() ? at::Tensor() : call.tensors.back());
  if (!found)
    return;
  found->rank_a = members_.ranks.at(static_cast<std::size_t>(found->rank_a)).value;
  found->rank_b = members_.ranks.at(static_cast<std::size_t>(found->rank_b)).value;
  throw Error(mismatch(*this, where(call), *found));
}

at::Tensor GroupState::allocate(std::int64_t elements, at::ScalarType type) {
  const at::TensorOptions options(type);
  wait_until_connected();
  const std::size_t bytes = static_cast<std::size_t>(elements) * c10::elementSize(type);
  const std::shared_ptr<void> memory = backend_ && bytes > 0 ? backend_->allocate(bytes) : nullptr;
  if (!memory)
    return at::zeros({elements}, options);
  return at::from_blob(memory.get(), {elements}, [memory](void*) {}, options);
}

void GroupState::begin(const std::shared_ptr<CallState>& call) {
  const std::lock_guard lock(mutex_);
  call->started = CallState::Clock::now();
  current_ = call;
  if (call->description.operation != Operation::Connect)
    note_entered(*call);
}

void GroupState::finish(const std::shared_ptr<CallState>& call) {
  CallRecord record{.group = label_,
                    .sequence = call->sequence,
                    .call = call->description,
                    .enqueued = call->enqueued,
                    .started = call->started,
                    .ended = CallState::Clock::now(),
                    .sent_bytes = backend_->sent_bytes(call->description)};
  {
    const std::lock_guard lock(mutex_);
    if (current_ == call)
      current_ = nullptr;
    if (call->post) {
      last_transfer_ = name(*call);
    } else if (call->description.operation != Operation::Connect) {
      finished_ = std::max(finished_, call->sequence);
      finished_name_ = name(*call);
    }
  }
  if (call->description.operation != Operation::Connect)
    job_->recorder.add(std::move(record));
  call->tensors.clear();
  call->end(nullptr);
}

void GroupState::fail(const std::exception_ptr& error) {
  std::vector<std::shared_ptr<CallState>> ended;
  {
    const std::lock_guard lock(mutex_);
    if (failure_)
      return;
    failure_ = error;
    if (taken_)
      ended.push_back(taken_);
    for (const auto& call : queue_)
      ended.push_back(call);
    for (const Lane* lane : {&sends_, &recvs_}) {
      for (const Posted& posted : lane->queue)
        ended.push_back(posted.call);
    }
    if (connecting_)
      ended.push_back(connecting_);
    if (exchange_)
      ended.push_back(exchange_);
    queue_.clear();
    changed_.notify_all();
  }
  for (const auto& call : ended)
    call->end(error);
}

std::exception_ptr GroupState::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::shared_ptr<CallState> GroupState::current() const {
  const std::lock_guard lock(mutex_);
  if (current_)
    return current_;
  if (exchange_)
    return exchange_;
  for (const Lane* lane : {&recvs_, &sends_}) {
    if (!lane->queue.empty())
      return lane->queue.front().call;
  }
  return nullptr;
}

GroupProgress GroupState::progress() const {
  const std::shared_ptr<CallState> call = current();
  const std::lock_guard lock(mutex_);
  GroupProgress progress{.group = key_,
                         .finished = finished_,
                         .finished_name = finished_name_,
                         .entered = {entered_.begin(), entered_.end()}};
  if (call) {
    progress.current = call->post ? 0 : call->sequence;
    progress.current_name = name(*call);
  }
  return progress;
}

std::string GroupState::name(const CallState& call) const { return name_of_call(call, members_); }

Where GroupState::where(const CallState& call) const {
  return {.rank = job_->rank(),
          .group = label_,
          .operation = name(call),
          .subject = call.description.subject};
}

std::exception_ptr GroupState::our_error(const CallState& call) {
  try {
    throw;
  } catch (const Error&) {
    return std::current_exception();
  } catch (const std::exception& error) {
    return std::make_exception_ptr(Error(diagnose(*this, call, first_line(error.what()))));
  }
}

void GroupState::break_at(const CallState& call) {
  const std::exception_ptr error = our_error(call);
  fail(error);
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    // Ranks that cannot see it by themselves, such as the other side of a transfer, hear of it.
    Failure failure = failure_of(job_->rank(), known);
    failure.operation = cat(name(call), " on ", label_);
    failure.phase = job_->phase();
    job_->publish(failure);
  }
}

void GroupState::close() {
  bool leave_behind = false;
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
    // Calls still queued run to their end, or to their deadline, which breaks the group.
    changed_.wait(lock, [&] { return running_ == 0 || failure_; });
    if (failure_)
      changed_.wait_for(lock, std::chrono::milliseconds(100), [&] { return running_ == 0; });
    leave_behind = running_ > 0;
  }
  for (std::thread* thread : {&worker_, &sends_.thread, &recvs_.thread}) {
    if (!thread->joinable())
      continue;
    if (leave_behind) {
      thread->detach();
    } else {
      thread->join();
    }
  }
  // Destroying connections that peers may still use, or that a thread hangs in, could block: they stay until the process ends.
  if (failure_ && backend_)
    new std::shared_ptr<Backend>(backend_);
}

}  // namespace lockstep::comm
