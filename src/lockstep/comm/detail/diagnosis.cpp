// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/diagnosis.h"

#include <thread>

#include "lockstep/base/text.h"

namespace lockstep::comm {

namespace {

constexpr auto kPatience = std::chrono::seconds(3);

Facts peer_error(const Where& where,
                 std::string problem,
                 const std::string& cause,
                 std::string next) {
  return {.fault = Fault::Peer,
          .where = where,
          .problem = std::move(problem),
          .cause = cause,
          .next = std::move(next)};
}

std::optional<Facts> finished_member(const GroupState& group,
                                     const Where& where,
                                     const std::string& cause) {
  for (const RankState& state : member_states(group, *group.job().store)) {
    if (!state.left)
      continue;
    return peer_error(where,
                      cat("rank ", state.rank, " has finished and left without this call"),
                      cause,
                      "Make every rank do the same number of steps, or end them together");
  }
  return std::nullopt;
}

}  // namespace

std::vector<RankState> member_states(const GroupState& group, Store& store) {
  std::vector<RankState> states;
  for (const GlobalRank rank : group.members().ranks) {
    const auto text = store.get(cat("state/", rank.value));
    states.push_back(text ? rank_state_from_json(*text)
                          : RankState{.rank = rank.value, .phase = "", .groups = {}});
  }
  return states;
}

std::optional<Facts> dead_member(GroupState& group, const Where& where, const std::string& cause) {
  Job& job = group.job();
  for (const GlobalRank rank : group.members().ranks) {
    const ProcessCard* card = job.card(rank.value);
    if (card == nullptr || !is_gone(*card, job.own_card))
      continue;
    return peer_error(where,
                      cat("rank ",
                          rank.value,
                          " is gone: its process ",
                          card->pid,
                          " on ",
                          card->host,
                          " ended without a word"),
                      cause,
                      cat("Look at the end of the output of rank ",
                          rank.value,
                          "; a kernel that ran out of memory leaves a line in dmesg"));
  }
  return std::nullopt;
}

Facts diagnose(GroupState& group, const CallState& call, const std::string& cause) {
  const Where where = group.where(call);
  const auto until = CallState::Clock::now() + kPatience;
  try {
    do {
      if (const auto failure = group.job().first_failure(*group.job().store))
        return consequence_of(*failure, where);
      if (auto dead = dead_member(group, where, cause))
        return *dead;
      if (auto finished = finished_member(group, where, cause))
        return *finished;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    } while (CallState::Clock::now() < until && !call.ended());
  } catch (const Error& error) {
    return peer_error(where,
                      "the store is gone, and with it the rank or launcher that serves it",
                      first_line(error.what()),
                      "Look at the first error of the launcher or of rank 0, which serve it");
  }
  return peer_error(
      where,
      "the connection to another rank was lost, and none says why",
      cause,
      "Look for the first error among the other ranks, and at the network between their machines");
}

}  // namespace lockstep::comm
