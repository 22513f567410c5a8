// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/pure/call_description.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

std::string_view name_of(Operation operation) {
  switch (operation) {
    case Operation::Connect: return "connect";
    case Operation::AllReduce: return "all_reduce";
    case Operation::ReduceScatter: return "reduce_scatter";
    case Operation::AllGather: return "all_gather";
    case Operation::Broadcast: return "broadcast";
    case Operation::AllToAll: return "all_to_all";
    case Operation::Send: return "send";
    case Operation::Recv: return "recv";
    case Operation::Barrier: return "barrier";
  }
  LOCKSTEP_ASSERT(false);
  return "";
}

std::int64_t CallDescription::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape)
    product *= extent;
  return product;
}

std::string text_of(const CallDescription& call) {
  std::string text(name_of(call.operation));
  if (!call.reduce.empty())
    text += cat(" ", call.reduce);
  if (!call.type.empty()) {
    std::vector<std::string> extents;
    for (const std::int64_t extent : call.shape)
      extents.push_back(cat(extent));
    text += cat(" ", call.type, " [", join(extents, ", "), "]");
    if (!call.device.empty())
      text += cat(" on ", call.device);
  }
  if (call.operation == Operation::Broadcast)
    text += cat(" from group rank ", call.root);
  if (!call.subject.empty())
    text += cat(" '", call.subject, "'");
  return text;
}

std::string call_name(Operation operation, std::uint64_t sequence) {
  return cat(name_of(operation), " #", sequence);
}

}  // namespace lockstep
