// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/backend/backend.h"
#include "lockstep/comm/detail/poll.h"
#include "lockstep/comm/pure/process_card.h"

namespace lockstep::comm {

namespace {

Meeting with_key(Meeting meeting, const char* transport) {
  meeting.key = cat(transport, meeting.key);
  return meeting;
}

// One text of every rank, by their places.
std::vector<std::string> exchange(const Meeting& meeting, const std::string& mine) {
  const std::string key = cat("transport/", meeting.key);
  std::vector<std::string> keys;
  for (int rank = 0; rank < meeting.size; ++rank)
    keys.push_back(cat(key, rank));
  meeting.store->set(keys[static_cast<std::size_t>(meeting.rank)], mine);
  const auto deadline = std::chrono::steady_clock::now() + meeting.timeout;
  for (Poll poll;; poll.pause()) {
    if (const auto values = meeting.store->get_all(keys))
      return *values;
    if (meeting.stop() || std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("the ranks of the group did not come to connect");
  }
}

[[noreturn]] void differ(const Meeting& meeting,
                         const std::string& a,
                         const std::string& b,
                         int rank) {
  throw Error({.fault = Fault::Mismatch,
               .where = {.subject = "comm.backend"},
               .problem = "ranks carry collectives by different backends",
               .expected = cat(a, " (group rank ", meeting.rank, ")"),
               .found = cat(b, " (group rank ", rank, ")"),
               .next = "Give every rank the same comm.backend"});
}

// Whether CPU tensors of this group pass through shared memory; the same answer on every rank.
bool takes_shared_memory(const Meeting& meeting) {
  const std::string machine = machine_of_network();
  const std::string mine = cat(meeting.transport, " ", machine);
  const std::vector<std::string> texts = exchange(meeting, mine);
  for (int rank = 0; rank < meeting.size; ++rank) {
    const std::string& text = texts[static_cast<std::size_t>(rank)];
    const std::string theirs = text.substr(0, text.find(' '));
    if (theirs != meeting.transport)
      differ(meeting, meeting.transport, theirs, rank);
    if (meeting.transport == "shm" && text != mine) {
      throw Error({.fault = Fault::Config,
                   .where = {.subject = "comm.backend"},
                   .problem = "shm works within one machine, and the ranks are on several",
                   .found = cat("group ranks ", meeting.rank, " and ", rank, " are on two"),
                   .next = "Set comm.backend = gloo"});
    }
  }
  return meeting.transport == "shm";
}

std::unique_ptr<Backend> connect_cpu(const Meeting& meeting) {
  return takes_shared_memory(meeting) ? connect_shm(with_key(meeting, "shm/"))
                                      : connect_gloo(with_key(meeting, "gloo/"));
}

// The ranks of a group compare their calls, device included, before data moves: all of them connect NCCL in the same call.
class ByDevice : public Backend {
 public:
  explicit ByDevice(const Meeting& meeting) : meeting_(meeting), cpu_(connect_cpu(meeting)) {}

  void all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    of(tensor).all_reduce(tensor, op);
  }
  void reduce_scatter(const at::Tensor& shard, const at::Tensor& full, ReduceOp op) override {
    of(full).reduce_scatter(shard, full, op);
  }
  void all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    of(full).all_gather(full, shard);
  }
  void broadcast(const at::Tensor& tensor, int root) override {
    of(tensor).broadcast(tensor, root);
  }
  void all_to_all(const at::Tensor& out, const at::Tensor& in) override {
    of(out).all_to_all(out, in);
  }
  void barrier() override { cpu_->barrier(); }
  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to, int tag) override {
    return of(tensor).send(tensor, to, tag);
  }
  std::unique_ptr<Transfer> recv(const at::Tensor& tensor, int from, int tag) override {
    return of(tensor).recv(tensor, from, tag);
  }
  std::int64_t sent_bytes(const CallDescription& call) const override {
    return (call.device.empty() || !cuda_ ? *cpu_ : *cuda_).sent_bytes(call);
  }
  bool compares(const CallDescription& call) const override {
    return call.device.empty() && cpu_->compares(call);
  }
  std::optional<Disagreement> compare(std::uint64_t sequence,
                                      const std::string& text,
                                      const at::Tensor& source) override {
    return cpu_->compare(sequence, text, source);
  }
  std::shared_ptr<void> allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }

 private:
  Backend& of(const at::Tensor& tensor) {
    if (tensor.is_cpu())
      return *cpu_;
    const std::lock_guard lock(connecting_);
    if (!cuda_)
      cuda_ = connect_nccl(with_key(meeting_, "nccl/"));
    return *cuda_;
  }

  Meeting meeting_;
  std::unique_ptr<Backend> cpu_;
  std::mutex connecting_;  // transfers come from threads of their own
  std::unique_ptr<Backend> cuda_;
};

}  // namespace

std::unique_ptr<Backend> connect_by_device(const Meeting& meeting) {
  return std::make_unique<ByDevice>(meeting);
}

}  // namespace lockstep::comm
