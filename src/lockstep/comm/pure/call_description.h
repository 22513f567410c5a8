// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// What a group does. `Connect` is the making of the group's connections, its call 0.
enum class Operation {
  Connect,
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,
  AllToAll,
  Send,
  Recv,
  Barrier
};

std::string_view name_of(Operation operation);

/// One call as every rank of the group must make it. Two ranks whose descriptions differ at one sequence number disagree.
struct CallDescription {
  Operation operation = Operation::Barrier;
  std::string reduce;  ///< "sum", "max", "min"; empty for operations that do not reduce
  std::string type;    ///< "f32"; empty without a tensor
  std::string device;  ///< "cuda"; empty for the CPU
  std::vector<std::int64_t> shape;  ///< of the whole (the larger) tensor
  int root = -1;  ///< group rank of a broadcast's root, or of the other side of a send or recv
  std::string subject;  ///< what is sent: a parameter, a unit, "loss"
  std::int64_t element_bytes = 0;

  std::int64_t elements() const;
  std::int64_t bytes() const { return elements() * element_bytes; }
};

/// "all_reduce sum f32 [100, 4] 'layers.2.weight'": compared between ranks, and shown in messages.
std::string text_of(const CallDescription& call);

/// "all_reduce #17"
std::string call_name(Operation operation, std::uint64_t sequence);

}  // namespace lockstep
