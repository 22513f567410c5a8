// SPDX-License-Identifier: Apache-2.0
#include <future>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/backend/backend.h"
#include "lockstep/comm/shm/heap.h"
#include "lockstep/comm/shm/member.h"
#include "lockstep/comm/shm/passing.h"
#include "lockstep/comm/shm/post.h"

namespace lockstep::comm {

namespace {

shm::Element element_of(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat: return shm::Element::F32;
    case at::kDouble: return shm::Element::F64;
    case at::kBFloat16: return shm::Element::BF16;
    case at::kHalf: return shm::Element::F16;
    case at::kLong: return shm::Element::I64;
    case at::kInt: return shm::Element::I32;
    case at::kShort: return shm::Element::I16;
    case at::kChar: return shm::Element::I8;
    case at::kByte: return shm::Element::U8;
    case at::kBool: return shm::Element::Bool;
    default: break;
  }
  LOCKSTEP_ASSERT(false);
  return shm::Element::U8;
}

shm::Reduction reduction_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Sum: return shm::Reduction::Sum;
    case ReduceOp::Max: return shm::Reduction::Max;
    case ReduceOp::Min: return shm::Reduction::Min;
  }
  LOCKSTEP_ASSERT(false);
  return shm::Reduction::Sum;
}

std::span<std::byte> bytes_of_tensor(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// The group compared the two sides already; what they move must be as long.
void require_alike(const std::optional<shm::Difference>& found) {
  LOCKSTEP_ASSERT(!found.has_value());
}

class SentLetter : public Transfer {
 public:
  explicit SentLetter(std::future<std::optional<shm::Difference>> done) : done_(std::move(done)) {}
  void wait() override { require_alike(done_.get()); }

 private:
  std::future<std::optional<shm::Difference>> done_;
};

class ReceivedLetter : public Transfer {
 public:
  ReceivedLetter(shm::Post& post, int from, at::Tensor tensor)
      : post_(post), from_(from), tensor_(std::move(tensor)) {}
  void wait() override { require_alike(post_.receive(from_, bytes_of_tensor(tensor_), "")); }

 private:
  shm::Post& post_;
  int from_;
  at::Tensor tensor_;
};

class Shm : public Backend {
 public:
  Shm(const Meeting& meeting, const shm::Shared& shared, const shm::Patience& patience)
      : heap_(meeting.heap),
        block_(std::make_shared<shm::Block>(shared.block.get(), meeting.size)),
        member_(block_, meeting.rank, open_heaps(shared), heap_.get(), patience),
        post_(block_, meeting.rank, patience) {}

  bool compares(const CallDescription&) const override { return true; }

  std::optional<Disagreement> compare(std::uint64_t sequence,
                                      const std::string& text,
                                      const at::Tensor& source) override {
    const auto found = member_.compare(
        {.sequence = sequence,
         .text = text,
         .source = source.defined() ? bytes_of_tensor(source) : std::span<std::byte>()});
    if (!found)
      return std::nullopt;
    return Disagreement{.sequence = sequence,
                        .rank_a = found->rank_a,
                        .rank_b = found->rank_b,
                        .a = found->a,
                        .b = found->b};
  }

  void all_reduce(const at::Tensor& tensor, ReduceOp op) override {
    member_.all_reduce(bytes_of_tensor(tensor), element_of(tensor), reduction_of(op));
  }
  void reduce_scatter(const at::Tensor& shard, const at::Tensor& full, ReduceOp op) override {
    member_.reduce_scatter(
        bytes_of_tensor(shard), bytes_of_tensor(full), element_of(full), reduction_of(op));
  }
  void all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    member_.all_gather(bytes_of_tensor(full), bytes_of_tensor(shard));
  }
  void broadcast(const at::Tensor& tensor, int root) override {
    member_.broadcast(bytes_of_tensor(tensor), root);
  }
  void all_to_all(const at::Tensor& out, const at::Tensor& in) override {
    member_.all_to_all(bytes_of_tensor(out), bytes_of_tensor(in));
  }
  void barrier() override {}  // compare() is one

  std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to, int) override {
    return std::make_unique<SentLetter>(post_.send(to,
                                                   {.bytes = bytes_of_tensor(tensor),
                                                    .text = "",
                                                    .keep = std::make_shared<at::Tensor>(tensor)}));
  }
  std::unique_ptr<Transfer> recv(const at::Tensor& tensor, int from, int) override {
    return std::make_unique<ReceivedLetter>(post_, from, tensor);
  }

  std::int64_t sent_bytes(const CallDescription& call) const override {
    switch (call.operation) {
      case Operation::Send: return call.bytes();
      case Operation::Connect:
      case Operation::Recv: return 0;
      default: return member_.sent_bytes();
    }
  }

  std::shared_ptr<void> allocate(std::size_t bytes) override {
    return {heap_->allocate(bytes),
            [heap = heap_](void* data) { heap->free(static_cast<std::byte*>(data)); }};
  }

 private:
  static std::vector<std::unique_ptr<shm::PeerHeap>> open_heaps(const shm::Shared& shared) {
    std::vector<std::unique_ptr<shm::PeerHeap>> heaps;
    for (const shm::Descriptor& heap : shared.heaps)
      heaps.push_back(std::make_unique<shm::PeerHeap>(heap.duplicate()));
    return heaps;
  }

  std::shared_ptr<shm::Heap> heap_;    // shared with the job and the tensors in it
  std::shared_ptr<shm::Block> block_;  // shared by the two below
  shm::Member member_;
  shm::Post post_;
};

}  // namespace

std::unique_ptr<Backend> connect_shm(const Meeting& meeting) {
  LOCKSTEP_ASSERT(meeting.heap != nullptr);
  const shm::Patience patience{.timeout = meeting.timeout, .stop = meeting.stop};
  const std::string key = cat(meeting.key, "socket");
  const shm::Shared shared = shm::pass_descriptors(
      {.rank = meeting.rank,
       .ranks = meeting.size,
       .heap = meeting.heap->fd(),
       .make_block =
           [&] { return shm::Block::make(meeting.size, meeting.key, shm::available_memory()); },
       .publish = [&](std::string_view name) { meeting.store->set(key, name); },
       .look_up = [&] { return meeting.store->get(key); },
       .patience = patience});
  return std::make_unique<Shm>(meeting, shared, patience);
}

}  // namespace lockstep::comm
