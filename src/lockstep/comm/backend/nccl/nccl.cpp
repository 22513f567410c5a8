// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/backend/backend.h"
#include "lockstep/comm/backend/c10d_store.h"
#include "lockstep/comm/pure/ring_traffic.h"

namespace lockstep::comm {

namespace {

using Works = c10::intrusive_ptr<c10d::Work>;
using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroupNCCL>;

c10d::ReduceOp nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum: return c10d::ReduceOp::SUM;
    case ReduceOp::Max: return c10d::ReduceOp::MAX;
    case ReduceOp::Min: return c10d::ReduceOp::MIN;
  }
  LOCKSTEP_ASSERT(false);
  return c10d::ReduceOp::SUM;
}

// Until the device is done: a backend's calls block. wait() alone only orders the streams.
void finish(const Works& work, const at::Tensor& tensor) {
  work->wait();
  const c10::impl::VirtualGuardImpl device(tensor.device().type());
  device.synchronizeStream(device.getStream(tensor.device()));
}

class NcclTransfer : public Transfer {
 public:
  NcclTransfer(Works work, at::Tensor tensor)
      : work_(std::move(work)), tensor_(std::move(tensor)) {}
  void wait() override {
    const c10::DeviceGuard guard(tensor_.device());
    finish(work_, tensor_);
  }

 private:
  Works work_;
  at::Tensor tensor_;
};

class Nccl : public Backend {
 public:
  /// `up` carries what goes to higher ranks, `down` to lower ones: on one communicator a send and a recv that the two sides
  /// post in different orders would wait for each other.
  Nccl(ProcessGroup collectives, ProcessGroup up, ProcessGroup down, const Meeting& meeting)
      : collectives_(std::move(collectives)),
        up_(std::move(up)),
        down_(std::move(down)),
        rank_(meeting.rank),
        size_(meeting.size) {}

  void all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    const c10::DeviceGuard guard(tensor.device());
    std::vector<at::Tensor> tensors = {tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = nccl_op(op);
    finish(collectives_->allreduce(tensors, options), tensor);
  }

  void reduce_scatter(const at::Tensor& shard, const at::Tensor& full, ReduceOp op) override {
    const c10::DeviceGuard guard(full.device());
    at::Tensor out = shard.view({-1});
    at::Tensor in = full.view({-1});
    c10d::ReduceScatterOptions options;
    options.reduceOp = nccl_op(op);
    finish(collectives_->_reduce_scatter_base(out, in, options), full);
  }

  void all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    const c10::DeviceGuard guard(full.device());
    at::Tensor out = full.view({-1});
    at::Tensor in = shard.view({-1});
    finish(collectives_->_allgather_base(out, in), full);
  }

  void broadcast(const at::Tensor& tensor, int root) override {
    const c10::DeviceGuard guard(tensor.device());
    std::vector<at::Tensor> tensors = {tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    finish(collectives_->broadcast(tensors, options), tensor);
  }

  void all_to_all(const at::Tensor& out, const at::Tensor& in) override {
    const c10::DeviceGuard guard(out.device());
    at::Tensor to = out.view({size_, -1});
    at::Tensor from = in.view({size_, -1});
    std::vector<std::int64_t> equal;
    finish(collectives_->alltoall_base(to, from, equal, equal), out);
  }

  void barrier() override { collectives_->barrier()->wait(); }

  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to, int tag) override {
    const c10::DeviceGuard guard(tensor.device());
    std::vector<at::Tensor> tensors = {tensor};
    return std::make_unique<NcclTransfer>(direction(rank_, to)->send(tensors, to, tag), tensor);
  }

  std::unique_ptr<Transfer> recv(const at::Tensor& tensor, int from, int tag) override {
    const c10::DeviceGuard guard(tensor.device());
    std::vector<at::Tensor> tensors = {tensor};
    return std::make_unique<NcclTransfer>(direction(from, rank_)->recv(tensors, from, tag), tensor);
  }

  std::int64_t sent_bytes(const CallDescription& call) const override {
    return ring_sent_bytes(call, rank_, size_);
  }

 private:
  const ProcessGroup& direction(int from, int to) const { return from < to ? up_ : down_; }

  ProcessGroup collectives_;
  ProcessGroup up_;
  ProcessGroup down_;
  int rank_;
  int size_;
};

}  // namespace

std::string why_no_nccl() { return ""; }

std::unique_ptr<Backend> connect_nccl(const Meeting& meeting) {
  const auto store = std::dynamic_pointer_cast<C10dStore>(meeting.store);
  LOCKSTEP_ASSERT(store != nullptr);
  const auto group = [&](const char* part) {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = meeting.timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(
        c10::make_intrusive<c10d::PrefixStore>(store->prefix() + meeting.key + part, store->raw()),
        meeting.rank,
        meeting.size,
        options);
  };
  return std::make_unique<Nccl>(group("all/"), group("up/"), group("down/"), meeting);
}

}  // namespace lockstep::comm
