// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/pure/ring_traffic.h"

namespace lockstep {

std::int64_t ring_sent_bytes(const CallDescription& call, int rank, int size) {
  const std::int64_t bytes = call.bytes();
  const std::int64_t all_but_one_part = bytes / size * (size - 1);
  switch (call.operation) {
    case Operation::AllReduce: return 2 * all_but_one_part;
    case Operation::ReduceScatter:
    case Operation::AllGather:
    case Operation::AllToAll: return all_but_one_part;
    case Operation::Broadcast: return (rank + 1) % size == call.root ? 0 : bytes;
    case Operation::Send: return bytes;
    case Operation::Connect:
    case Operation::Recv:
    case Operation::Barrier: return 0;
  }
  return 0;
}

}  // namespace lockstep
