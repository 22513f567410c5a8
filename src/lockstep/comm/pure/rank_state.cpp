// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/pure/rank_state.h"

#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EnteredCall, sequence, text)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    GroupProgress, group, finished, finished_name, current, current_name, entered)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankState, rank, beat, phase, left, groups)

const GroupProgress* RankState::in(std::string_view group) const {
  for (const GroupProgress& progress : groups) {
    if (progress.group == group)
      return &progress;
  }
  return nullptr;
}

std::string to_json(const RankState& state) {
  return nlohmann::json(state).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

RankState rank_state_from_json(std::string_view json) {
  return nlohmann::json::parse(json).get<RankState>();
}

std::optional<Disagreement> find_disagreement(const std::vector<RankState>& states,
                                              std::string_view group) {
  std::map<std::uint64_t, std::pair<int, std::string>>
      first;  // who made each call first, of `states`
  std::optional<Disagreement> earliest;
  for (const RankState& state : states) {
    const GroupProgress* progress = state.in(group);
    if (progress == nullptr)
      continue;
    for (const EnteredCall& call : progress->entered) {
      const auto& [rank, text] =
          first.try_emplace(call.sequence, state.rank, call.text).first->second;
      if (text == call.text || (earliest && earliest->sequence <= call.sequence))
        continue;
      earliest = {.sequence = call.sequence,
                  .rank_a = rank,
                  .rank_b = state.rank,
                  .a = text,
                  .b = call.text};
    }
  }
  return earliest;
}

std::vector<int> missing_from(const std::vector<RankState>& states,
                              std::string_view group,
                              std::uint64_t sequence) {
  std::vector<int> missing;
  for (const RankState& state : states) {
    const GroupProgress* progress = state.in(group);
    const bool arrived =
        progress != nullptr &&
        (progress->finished >= sequence || progress->current >= sequence ||
         std::any_of(progress->entered.begin(),
                     progress->entered.end(),
                     [&](const EnteredCall& call) { return call.sequence == sequence; }));
    if (!arrived)
      missing.push_back(state.rank);
  }
  return missing;
}

std::string missing_text(const RankState& state,
                         std::string_view group,
                         std::string_view call_name) {
  std::string text = cat("rank ", state.rank, " missing at ", call_name);
  const GroupProgress* progress = state.in(group);
  if (progress != nullptr && !progress->current_name.empty()) {
    text += cat("; it is in ", progress->current_name);
  } else if (progress != nullptr && !progress->finished_name.empty()) {
    text += cat("; its last was ", progress->finished_name);
  } else {
    text += "; it made no call yet";
  }
  if (state.left)
    text += ", and it has finished";
  if (!state.left && !state.phase.empty())
    text += cat(", phase ", state.phase);
  return text;
}

}  // namespace lockstep
