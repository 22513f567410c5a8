// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/mesh/rank.h"

namespace lockstep {

/// A collective that a rank has begun.
struct EnteredCall {
  std::uint64_t sequence = 0;
  std::string text;  ///< whole description, compared between ranks
};

/// Where one rank stands in one group. Sequence numbers count the group's collectives, and exchanges of texts through the
/// store, from 1; 0: none yet.
struct GroupProgress {
  std::string group;           ///< key of the group, the same on all members
  std::uint64_t finished = 0;  ///< the last collective that ended
  std::string finished_name;   ///< "all_reduce #16"
  std::uint64_t current =
      0;  ///< the collective under way; 0: none, or a transfer between two ranks
  std::string current_name;
  std::vector<EnteredCall> entered;  ///< the last few, finished ones too
};

/// What a rank publishes about once a second.
struct RankState {
  int rank = 0;
  std::uint64_t beat =
      0;  ///< grows with each publication: a rank whose beat stands still is gone or stopped
  std::string phase;
  bool left = false;  ///< said that it finished
  std::vector<GroupProgress> groups;

  const GroupProgress* in(std::string_view group) const;
};

std::string to_json(const RankState& state);
RankState rank_state_from_json(std::string_view json);

/// Two ranks that made different calls at one place among a group's collectives. One of them may have left it behind: small
/// calls can end in the transport's buffers.
struct Disagreement {
  std::uint64_t sequence = 0;  ///< of the call; 0: not one of those
  int rank_a = 0;
  int rank_b = 0;
  std::string a;
  std::string b;
};
/// The earliest one that the published calls show.
std::optional<Disagreement> find_disagreement(const std::vector<RankState>& states,
                                              std::string_view group);

/// Ranks of `states` that never entered collective `sequence` of `group`, though others wait there.
std::vector<int> missing_from(const std::vector<RankState>& states,
                              std::string_view group,
                              std::uint64_t sequence);

/// "rank 2 missing at all_reduce #17; its last was all_reduce #16, phase forward"
std::string missing_text(const RankState& state,
                         std::string_view group,
                         std::string_view call_name);

}  // namespace lockstep
