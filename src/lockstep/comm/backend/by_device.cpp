// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <utility>

#include "lockstep/base/text.h"
#include "lockstep/comm/backend/backend.h"

namespace lockstep::comm {

namespace {

// The ranks of a group compare their calls, device included, before data moves: all of them connect NCCL in the same call.
class ByDevice : public Backend {
 public:
  explicit ByDevice(const Meeting& meeting)
      : meeting_(meeting), cpu_(connect_gloo(with_key(meeting, "gloo/"))) {}

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

 private:
  static Meeting with_key(Meeting meeting, const char* transport) {
    meeting.key = cat(transport, meeting.key);
    return meeting;
  }

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
