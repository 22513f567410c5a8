// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "lockstep/comm/detail/group_state.h"

namespace lockstep::comm {

/// What lies behind an error of the transport (`cause`, such as "connection closed by peer"): waits up to 3 s for the failure
/// that a peer publishes before it leaves, or for a sign that a peer is gone. Always Peer, except for a Mismatch of this group.
Facts diagnose(GroupState& group, const CallState& call, const std::string& cause);

/// A member whose process is gone without a word, as far as this machine can see.
std::optional<Facts> dead_member(GroupState& group, const Where& where, const std::string& cause);

/// The states that the members of the group published last; those that published none are empty but for their rank.
std::vector<RankState> member_states(const GroupState& group, Store& store);

}  // namespace lockstep::comm
