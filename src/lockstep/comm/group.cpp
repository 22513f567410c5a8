// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/group.h"

#include <utility>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/detail/agreement.h"
#include "lockstep/comm/detail/group_state.h"

namespace lockstep {

namespace {

using comm::Backend;
using comm::CallState;
using comm::GroupState;
using Call = std::shared_ptr<CallState>;

std::string type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return "f32";
    case at::kDouble: return "f64";
    case at::kBFloat16: return "bf16";
    case at::kHalf: return "f16";
    case at::kLong: return "i64";
    case at::kInt: return "i32";
    case at::kShort: return "i16";
    case at::kChar: return "i8";
    case at::kByte: return "u8";
    case at::kBool: return "bool";
    default: return "";
  }
}

std::string name_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum: return "sum";
    case ReduceOp::Max: return "max";
    case ReduceOp::Min: return "min";
  }
  return "";
}

[[noreturn]] void refuse(const GroupState& group,
                         const CallDescription& call,
                         std::string problem,
                         std::string found,
                         std::string next) {
  throw Error({.fault = Fault::Usage,
               .where = {.rank = group.job().rank(),
                         .group = group.label(),
                         .operation = std::string(lockstep::name_of(call.operation)),
                         .subject = call.subject},
               .problem = std::move(problem),
               .found = std::move(found),
               .next = std::move(next)});
}

void check_tensor(const GroupState& group, const CallDescription& call, const at::Tensor& tensor) {
  if (!tensor.defined())
    refuse(group, call, "the tensor is undefined", "", "Pass a tensor that holds data");
  if (type_name(tensor.scalar_type()).empty()) {
    refuse(group,
           call,
           "this type cannot be sent",
           c10::toString(tensor.scalar_type()),
           "Convert it, or send it as bytes");
  }
  const bool sent = tensor.is_cpu() || (tensor.is_cuda() && comm::why_no_nccl().empty());
  if (!sent) {
    refuse(group,
           call,
           tensor.is_cuda()
               ? cat("CUDA tensors need NCCL, which this build has not: ", comm::why_no_nccl())
               : "tensors of this device cannot be sent",
           tensor.device().str(),
           "Copy it to the CPU");
  }
  if (tensor.layout() != at::kStrided || !tensor.is_contiguous()) {
    refuse(group, call, "the tensor is not contiguous", "", "Call contiguous() on it first");
  }
}

Call make_call(Operation operation, const at::Tensor& tensor, std::string_view subject) {
  auto call = std::make_shared<CallState>();
  call->description.operation = operation;
  call->description.subject = subject;
  if (!tensor.defined())
    return call;
  call->description.type = type_name(tensor.scalar_type());
  call->description.shape = tensor.sizes().vec();
  call->description.element_bytes = static_cast<std::int64_t>(tensor.element_size());
  if (tensor.is_cuda()) {
    const c10::impl::VirtualGuardImpl device(tensor.device().type());
    call->description.device = "cuda";
    call->inputs.emplace(tensor.device().type()).record(device.getStream(tensor.device()));
  }
  return call;
}

// Without autograd's knowledge: what travels are values.
at::Tensor plain(const at::Tensor& tensor) { return tensor.detach(); }

/// `whole` is `parts` times `part`, of one type.
void check_parts(const GroupState& group,
                 const CallDescription& call,
                 const at::Tensor& whole,
                 const at::Tensor& part) {
  check_tensor(group, call, whole);
  check_tensor(group, call, part);
  if (whole.scalar_type() != part.scalar_type()) {
    refuse(group,
           call,
           "the two tensors differ in type",
           cat(type_name(whole.scalar_type()), " and ", type_name(part.scalar_type())),
           "Give both the same type");
  }
  if (whole.numel() != part.numel() * group.size()) {
    refuse(group,
           call,
           "the whole is not one slice for each rank",
           cat(whole.numel(), " elements for ", group.size(), " slices of ", part.numel()),
           "Pad the whole to a multiple of the group's size");
  }
}

}  // namespace

Pending::Pending(std::shared_ptr<comm::CallState> state) : state_(std::move(state)) {}

void Pending::wait() {
  if (state_)
    state_->wait();
}

bool Pending::done() const { return !state_ || state_->ended(); }

Group::Group(std::shared_ptr<comm::GroupState> state) : state_(std::move(state)) {}

const std::string& Group::label() const { return state_->label(); }
int Group::size() const { return state_->size(); }
GroupRank Group::rank() const { return {state_->members().me}; }
GlobalRank Group::global(GroupRank rank) const {
  return state_->members().ranks.at(static_cast<std::size_t>(rank.value));
}

Pending Group::all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view subject) const {
  const Call call = make_call(Operation::AllReduce, tensor, subject);
  call->description.reduce = name_of(op);
  check_tensor(*state_, call->description, tensor);
  if (size() == 1)
    return {};
  call->tensors = {plain(tensor)};
  call->run = [call = call.get(), op](Backend& backend) {
    if (call->tensors[0].numel() > 0)
      backend.all_reduce(call->tensors[0], op);
  };
  return Pending(state_->enqueue(call));
}

Pending Group::reduce_scatter(const at::Tensor& shard,
                              const at::Tensor& full,
                              ReduceOp op,
                              std::string_view subject) const {
  const Call call = make_call(Operation::ReduceScatter, full, subject);
  call->description.reduce = name_of(op);
  check_parts(*state_, call->description, full, shard);
  call->tensors = {plain(shard), plain(full)};
  if (size() == 1) {
    call->tensors[0].view({-1}).copy_(call->tensors[1].view({-1}));
    return {};
  }
  call->run = [call = call.get(), op](Backend& backend) {
    if (call->tensors[0].numel() > 0)
      backend.reduce_scatter(call->tensors[0], call->tensors[1], op);
  };
  return Pending(state_->enqueue(call));
}

Pending Group::all_gather(const at::Tensor& full,
                          const at::Tensor& shard,
                          std::string_view subject) const {
  const Call call = make_call(Operation::AllGather, full, subject);
  check_parts(*state_, call->description, full, shard);
  call->tensors = {plain(full), plain(shard)};
  if (size() == 1) {
    call->tensors[0].view({-1}).copy_(call->tensors[1].view({-1}));
    return {};
  }
  call->run = [call = call.get()](Backend& backend) {
    if (call->tensors[1].numel() > 0)
      backend.all_gather(call->tensors[0], call->tensors[1]);
  };
  return Pending(state_->enqueue(call));
}

Pending Group::broadcast(const at::Tensor& tensor, GroupRank root, std::string_view subject) const {
  const Call call = make_call(Operation::Broadcast, tensor, subject);
  call->description.root = root.value;
  check_tensor(*state_, call->description, tensor);
  check_member(call->description, root);
  if (size() == 1)
    return {};
  call->tensors = {plain(tensor)};
  call->run = [call = call.get()](Backend& backend) {
    if (call->tensors[0].numel() > 0)
      backend.broadcast(call->tensors[0], call->description.root);
  };
  return Pending(state_->enqueue(call));
}

Pending Group::all_to_all(const at::Tensor& out,
                          const at::Tensor& in,
                          std::string_view subject) const {
  const Call call = make_call(Operation::AllToAll, in, subject);
  check_tensor(*state_, call->description, in);
  check_tensor(*state_, call->description, out);
  if (out.numel() != in.numel() || out.scalar_type() != in.scalar_type() ||
      in.numel() % size() != 0) {
    refuse(*state_,
           call->description,
           "out and in are not alike, or do not hold one equal slice for each rank",
           cat(out.numel(), " and ", in.numel(), " elements for ", size(), " ranks"),
           "Pad both to a multiple of the group's size");
  }
  call->tensors = {plain(out), plain(in)};
  if (size() == 1) {
    call->tensors[0].view({-1}).copy_(call->tensors[1].view({-1}));
    return {};
  }
  call->run = [call = call.get()](Backend& backend) {
    if (call->tensors[0].numel() > 0)
      backend.all_to_all(call->tensors[0], call->tensors[1]);
  };
  return Pending(state_->enqueue(call));
}

Pending Group::send(const at::Tensor& tensor, GroupRank to, std::string_view subject) const {
  const Call call = make_call(Operation::Send, tensor, subject);
  call->description.root = to.value;
  check_tensor(*state_, call->description, tensor);
  check_other(call->description, to);
  call->tensors = {plain(tensor)};
  call->post = [call = call.get()](Backend& backend) {
    return backend.send(call->tensors[0], call->description.root, comm::kTransferTag);
  };
  return Pending(state_->enqueue(call));
}

Pending Group::recv(const at::Tensor& tensor, GroupRank from, std::string_view subject) const {
  const Call call = make_call(Operation::Recv, tensor, subject);
  call->description.root = from.value;
  check_tensor(*state_, call->description, tensor);
  check_other(call->description, from);
  call->tensors = {plain(tensor)};
  call->post = [call = call.get()](Backend& backend) {
    return backend.recv(call->tensors[0], call->description.root, comm::kTransferTag);
  };
  return Pending(state_->enqueue(call));
}

Pending Group::barrier(std::string_view subject) const {
  if (size() == 1)
    return {};
  const Call call = make_call(Operation::Barrier, at::Tensor(), subject);
  call->run = [](Backend& backend) { backend.barrier(); };
  return Pending(state_->enqueue(call));
}

at::Tensor Group::allocate(std::int64_t elements, c10::ScalarType type) const {
  return state_->allocate(elements, type);
}

std::vector<std::string> Group::gather_text(std::string_view mine, std::string_view subject) const {
  if (size() == 1)
    return {std::string(mine)};
  return comm::exchange_texts(*state_, mine, subject);
}

CallDigest Group::take_digest() const { return state_->history().take(); }

void Group::throw_first_difference() const {
  std::vector<std::vector<std::string>> calls;
  for (const std::string& text :
       gather_text(join(state_->history().taken(), "\n"), "calls of the last step")) {
    calls.push_back(text.empty() ? std::vector<std::string>{} : split(text, '\n'));
  }
  const FirstDifference first = first_difference(calls);
  Where where{.rank = state_->job().rank(),
              .group = label(),
              .operation = cat("call ", first.index + 1, " of the step")};
  if (!first.found) {
    throw Error({.fault = Fault::Internal,
                 .where = std::move(where),
                 .problem = "the digests of the step differ, but not its calls"});
  }
  throw Error(comm::mismatch(*state_,
                             std::move(where),
                             {.rank_a = global({first.rank_a}).value,
                              .rank_b = global({first.rank_b}).value,
                              .a = first.a,
                              .b = first.b}));
}

void Group::check_member(const CallDescription& call, GroupRank rank) const {
  if (rank.value >= 0 && rank.value < size())
    return;
  refuse(*state_,
         call,
         "there is no such rank in the group",
         cat("group rank ", rank.value),
         cat("Take one from 0 to ", size() - 1));
}

void Group::check_other(const CallDescription& call, GroupRank rank) const {
  check_member(call, rank);
  if (rank == this->rank())
    refuse(*state_,
           call,
           "a rank cannot send to itself",
           cat("group rank ", rank.value),
           "Copy the tensor instead");
}

}  // namespace lockstep
