// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/comm/backend/store.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/pure/call_description.h"
#include "lockstep/comm/pure/rank_state.h"

namespace lockstep::comm {

namespace shm {
class Heap;
}

/// Transfers between two ranks come in order; all use one tag.
inline constexpr int kTransferTag = 1;

/// A transfer under way between two ranks.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual void wait() = 0;
};

/// The connections of one group over one transport. Tensors are contiguous, on its device, and without autograd.
/// Contract  Calls block until this rank is done. Collectives come from one thread, transfers from any.
/// Errors    Whatever the transport throws; the group finds out what lies behind it. After an error the object is only
///           good for being leaked: its destructor may wait for peers.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual void all_reduce(const at::Tensor& tensor, ReduceOp op) = 0;
  virtual void reduce_scatter(const at::Tensor& shard, const at::Tensor& full, ReduceOp op) = 0;
  virtual void all_gather(const at::Tensor& full, const at::Tensor& shard) = 0;
  virtual void broadcast(const at::Tensor& tensor, int root) = 0;
  virtual void all_to_all(const at::Tensor& out, const at::Tensor& in) = 0;
  virtual void barrier() = 0;
  virtual std::unique_ptr<Transfer> send(const at::Tensor& tensor, int to, int tag) = 0;
  virtual std::unique_ptr<Transfer> recv(const at::Tensor& tensor, int from, int tag) = 0;
  /// Payload bytes that this rank hands to the wire for `call`.
  virtual std::int64_t sent_bytes(const CallDescription& call) const = 0;

  /// Whether collectives like `call` are compared by compare(), every one of them; else the group compares new ones.
  virtual bool compares(const CallDescription&) const { return false; }
  /// Meets all ranks right before a collective. `source` is what its peers may read in place, or undefined. Returns two
  /// members, by their places, that are about to make different calls; no data has moved then.
  virtual std::optional<Disagreement> compare(std::uint64_t,
                                              const std::string&,
                                              const at::Tensor&) {
    return std::nullopt;
  }
  /// Zeroed memory that peers reach in place. None where the transport has no such memory. From any thread.
  virtual std::shared_ptr<void> allocate(std::size_t) { return nullptr; }
};

/// Where a group meets: the store, a prefix of its own there, and this rank's place.
struct Meeting {
  std::shared_ptr<Store> store;
  std::string key;   ///< unique among the job's groups
  std::string host;  ///< address of this machine that peers reach
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout;
  std::string transport;            ///< of CPU tensors: "auto", "gloo", "shm"
  std::shared_ptr<shm::Heap> heap;  ///< this rank's; shared by its groups and the tensors in it
  std::function<bool()> stop;       ///< true ends waits: the group broke. From any thread
};

/// Connects all ranks of a group over Gloo. Blocks until all are there. Config error where the build has no Gloo.
std::unique_ptr<Backend> connect_gloo(const Meeting& meeting);

/// Whether this build has Gloo, and if not, why: empty when it has.
std::string why_no_gloo();

/// Connects the ranks of a group on one machine over shared memory. Blocks until all are there. Environment error where there
/// is too little memory for it.
std::unique_ptr<Backend> connect_shm(const Meeting& meeting);

/// Prepares NCCL for CUDA tensors; ranks meet in their first call. Config error where the build has no NCCL.
std::unique_ptr<Backend> connect_nccl(const Meeting& meeting);

/// Whether this build has NCCL, and if not, why: empty when it has.
std::string why_no_nccl();

/// CPU tensors over the meeting's transport (auto: Gloo), connected now; CUDA tensors over NCCL, connected in the first call
/// with one.
/// Errors   Mismatch: the ranks chose different transports. Config: shm, and the ranks are on several machines.
std::unique_ptr<Backend> connect_by_device(const Meeting& meeting);

}  // namespace lockstep::comm
