// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/detail/group_state.h"

namespace lockstep::comm {

/// Waits until every member makes `call`, and compares what they give: operation, type, shape, root and subject. Returns early
/// when the watchdog ended the call.
/// Cost     3 short exchanges with the store, and polls until the last member is there.
/// Errors   Mismatch, on every member, naming two ranks and their calls; no data has moved.
void agree_on(GroupState& group, const CallState& call);

/// The same for a transfer: the sender leaves what it sends, and does not wait; the receiver compares. Errors: Mismatch.
void announce_send(GroupState& group, const CallState& call);
void check_recv(GroupState& group, const CallState& call);

/// One text of every member, in group order. Waits for all, up to the timeout, in the watchdog's sight.
/// Errors   Peer: a rank failed, is gone or did not come, named. Mismatch: the subjects differ, or a member makes another call.
std::vector<std::string> exchange_texts(GroupState& group,
                                        std::string_view mine,
                                        std::string_view subject);

/// The error for two ranks in one place with different calls.
Facts mismatch(const GroupState& group, Where where, const Disagreement& found);

}  // namespace lockstep::comm
