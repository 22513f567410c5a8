// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/backend/backend.h"
#include "lockstep/comm/backend/c10d_store.h"
#include "lockstep/comm/pure/gloo_traffic.h"

namespace lockstep::comm {

namespace {

using Works = c10::intrusive_ptr<c10d::Work>;

c10d::ReduceOp gloo_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum: return c10d::ReduceOp::SUM;
    case ReduceOp::Max: return c10d::ReduceOp::MAX;
    case ReduceOp::Min: return c10d::ReduceOp::MIN;
  }
  LOCKSTEP_ASSERT(false);
  return c10d::ReduceOp::SUM;
}

// Moving data does not depend on the type, and Gloo knows few of them: bytes.
at::Tensor as_bytes(const at::Tensor& tensor) { return tensor.view({-1}).view(at::kByte); }

// A type in which Gloo reduces, and which holds every value of `type`.
at::ScalarType reduced_as(at::ScalarType type) {
  switch (type) {
    case at::kBool: return at::kByte;
    case at::kShort: return at::kInt;
    default: return type;
  }
}

void combine(at::Tensor& total, const at::Tensor& part, ReduceOp op) {
  if (op == ReduceOp::Sum) {
    total.add_(part);
  } else if (op == ReduceOp::Max) {
    at::maximum_out(total, total, part);
  } else {
    at::minimum_out(total, total, part);
  }
}

class GlooTransfer : public Transfer {
 public:
  GlooTransfer(Works work, at::Tensor tensor, std::chrono::milliseconds timeout)
      : work_(std::move(work)), tensor_(std::move(tensor)), timeout_(timeout) {}
  void wait() override {
    if (!work_->wait(timeout_))
      throw std::runtime_error("the transfer was aborted");
  }

 private:
  Works work_;
  at::Tensor tensor_;
  std::chrono::milliseconds timeout_;
};

class Gloo : public Backend {
 public:
  Gloo(c10::intrusive_ptr<c10d::ProcessGroupGloo> group, const Meeting& meeting)
      : group_(std::move(group)),
        rank_(meeting.rank),
        size_(meeting.size),
        timeout_(meeting.timeout) {}

  void all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    const at::ScalarType wire = reduced_as(tensor.scalar_type());
    // For bool a sum is "any", as in a + b of libtorch.
    const ReduceOp wire_op =
        tensor.scalar_type() == at::kBool && op == ReduceOp::Sum ? ReduceOp::Max : op;
    std::vector<at::Tensor> tensors = {wire == tensor.scalar_type() ? tensor : tensor.to(wire)};
    c10d::AllreduceOptions options;
    options.reduceOp = gloo_op(wire_op);
    group_->allreduce(tensors, options)->wait();
    if (wire != tensor.scalar_type())
      tensor.copy_(tensors[0]);
  }

  void reduce_scatter(const at::Tensor& shard, const at::Tensor& full, ReduceOp op) override {
    const at::Tensor slices = at::empty({size_, shard.numel()}, full.options());
    all_to_all(slices, full);
    // Rank order, and half types are summed in fp32: the result does not depend on who is late.
    const at::ScalarType type = full.scalar_type();
    const bool half = type == at::kHalf || type == at::kBFloat16;
    at::Tensor total = half ? slices[0].to(at::kFloat) : slices[0].clone();
    for (int i = 1; i < size_; ++i)
      combine(total, half ? slices[i].to(at::kFloat) : slices[i], op);
    shard.view({-1}).copy_(total);
  }

  void all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    at::Tensor out = as_bytes(full);
    at::Tensor in = as_bytes(shard);
    group_->_allgather_base(out, in)->wait();
  }

  void broadcast(const at::Tensor& tensor, int root) override {
    std::vector<at::Tensor> tensors = {as_bytes(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    group_->broadcast(tensors, options)->wait();
  }

  void all_to_all(const at::Tensor& out, const at::Tensor& in) override {
    at::Tensor to = as_bytes(out).view({size_, -1});
    at::Tensor from = as_bytes(in).view({size_, -1});
    std::vector<std::int64_t> equal;
    group_->alltoall_base(to, from, equal, equal)->wait();
  }

  void barrier() override { group_->barrier()->wait(); }

  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to, int tag) override {
    std::vector<at::Tensor> tensors = {as_bytes(tensor)};
    const std::lock_guard lock(posting_);
    return std::make_unique<GlooTransfer>(group_->send(tensors, to, tag), tensors[0], timeout_);
  }

  std::unique_ptr<Transfer> recv(const at::Tensor& tensor, int from, int tag) override {
    std::vector<at::Tensor> tensors = {as_bytes(tensor)};
    const std::lock_guard lock(posting_);
    return std::make_unique<GlooTransfer>(group_->recv(tensors, from, tag), tensors[0], timeout_);
  }

  std::int64_t sent_bytes(const CallDescription& call) const override {
    CallDescription wire = call;
    if (call.operation == Operation::AllReduce && call.type == "i16")
      wire.element_bytes = 4;
    return gloo_sent_bytes(wire, rank_, size_);
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  std::mutex posting_;  // sends and receives are posted by two threads
};

}  // namespace

std::string why_no_gloo() { return ""; }

std::unique_ptr<Backend> connect_gloo(const Meeting& meeting) {
  const auto store = std::dynamic_pointer_cast<C10dStore>(meeting.store);
  LOCKSTEP_ASSERT(store != nullptr);
  auto prefixed =
      c10::make_intrusive<c10d::PrefixStore>(store->prefix() + meeting.key, store->raw());
  auto options = c10d::ProcessGroupGloo::Options::create(meeting.timeout);
  options->threads = 1;  // the group's worker gives it one call at a time
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(meeting.host));
  return std::make_unique<Gloo>(
      c10::make_intrusive<c10d::ProcessGroupGloo>(prefixed, meeting.rank, meeting.size, options),
      meeting);
}

}  // namespace lockstep::comm
