// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/torch_fwd.h"
#include "lockstep/comm/pure/call_history.h"
#include "lockstep/mesh/rank.h"

namespace c10 {
enum class ScalarType : std::int8_t;
}

namespace lockstep {

enum class ReduceOp { Sum, Max, Min };

namespace comm {
class GroupState;
class CallState;
}  // namespace comm

/// An operation under way. Keeps the call's tensors alive; they belong to the operation until wait() returns.
/// wait() returns when the result is there, or throws: Mismatch (ranks disagree; tensors unchanged) or Peer (a rank is gone
/// or late; the group can only be destroyed). Waiting twice is allowed. A handle that is dropped is waited for by the group's
/// next call, which carries its error.
class [[nodiscard]] Pending {
 public:
  Pending() = default;  ///< of nothing: done
  explicit Pending(std::shared_ptr<comm::CallState> state);
  void wait();
  bool done() const;

 private:
  std::shared_ptr<comm::CallState> state_;  // shared with the group's worker
};

/// Ranks that communicate, and this process's place among them.
///
/// Contract  Every member calls the same operations with the same shapes and types in the same order; `send` and `recv` pair up.
///           Calls return at once; operations of one group run one after the other, in the order of the calls.
///           Tensors are contiguous and may not be touched until the handle was waited for.
/// Subject   The name of what is sent (a parameter, a unit, "loss"); it is compared between ranks and shown in every message.
/// Errors    Usage at the call for a tensor that cannot be sent; the rest comes out of Pending::wait().
/// Threads   Calls may come from several threads only if their order is the same on every rank.
class Group {
 public:
  explicit Group(std::shared_ptr<comm::GroupState> state);

  const std::string& label() const;  ///< "dp_replicate (ranks 0 1 2 3)"
  int size() const;
  GroupRank rank() const;
  GlobalRank global(GroupRank rank) const;

  /// In place. Cost: 2 (n-1)/n * bytes sent per rank. All ranks end with the same bits.
  Pending all_reduce(const at::Tensor& tensor, ReduceOp op, std::string_view subject) const;

  /// shard [k], full [n*k] by elements: the sum over ranks, each rank keeps its slice. Cost: (n-1)/n * bytes(full) per rank.
  /// Gloo: all_to_all of slices and a local sum; extra memory bytes(full).
  Pending reduce_scatter(const at::Tensor& shard,
                         const at::Tensor& full,
                         ReduceOp op,
                         std::string_view subject) const;

  /// full [n*k], shard [k] by elements. `shard` may be this rank's slice of `full`. Cost: (n-1)/n * bytes(full) per rank.
  Pending all_gather(const at::Tensor& full,
                     const at::Tensor& shard,
                     std::string_view subject) const;

  /// Any shape; rank `root`'s values everywhere. Every rank names the same root (Mismatch otherwise). Cost: on Gloo a
  /// binomial tree, so that a rank sends at most log2(n) times its bytes, on NCCL a ring. Errors: Usage for a root that is not in the group.
  Pending broadcast(const at::Tensor& tensor, GroupRank root, std::string_view subject) const;

  /// in, out [n*k] by elements: slice j [k] of `in` goes to rank j; slice j of `out` comes from rank j. Equal slices, and two
  /// tensors that share no memory. Cost: (n-1)/n * bytes(in) per rank. Errors: Usage where n does not divide the elements.
  Pending all_to_all(const at::Tensor& out, const at::Tensor& in, std::string_view subject) const;

  /// One tensor to one rank. The k-th send to a rank pairs with that rank's k-th recv from this one: same shape, type and
  /// subject, or the receiver's wait() throws Mismatch. Sends and receives of a pair keep their order and are not in the way of
  /// each other, whichever was called first. Cost: bytes sent once, by the sender. Errors: Usage for this rank itself or one
  /// that is not in the group; Peer where the other side does not come within the timeout.
  Pending send(const at::Tensor& tensor, GroupRank to, std::string_view subject) const;
  Pending recv(const at::Tensor& tensor, GroupRank from, std::string_view subject) const;

  /// Done on a rank when every rank has called it, and so has finished all it called before. Cost: no payload.
  /// Errors: Peer names who did not come within the timeout.
  Pending barrier(std::string_view subject) const;

  /// A zeroed CPU tensor of one dim where peers reach it: operations on it, or on parts of it, do not copy it first. Ordinary
  /// memory where the backend has no such memory. For few large buffers that live long: each takes whole pages. Blocks until the
  /// group is connected. Errors: Environment when there is too little memory, with the needed and found bytes.
  at::Tensor allocate(std::int64_t elements, c10::ScalarType type) const;

  /// One text of every rank, in rank order. Blocking; for set-up and reports, not for steps. Through the store.
  std::vector<std::string> gather_text(std::string_view mine, std::string_view subject) const;

  /// A digest of the collectives since the last take, on this rank. It rides with a sum that every rank makes once a step:
  /// where CallDigest::all_equal says no, every rank calls throw_first_difference.
  CallDigest take_digest() const;
  /// Compares the calls that the last take_digest covered, over all ranks. Collective, through the store; always throws:
  /// Mismatch naming the first call that differs and two ranks that made different ones.
  [[noreturn]] void throw_first_difference() const;

 private:
  void check_member(const CallDescription& call, GroupRank rank) const;
  void check_other(const CallDescription& call, GroupRank rank) const;
  std::shared_ptr<comm::GroupState> state_;  // shared by copies of the handle
};

}  // namespace lockstep
