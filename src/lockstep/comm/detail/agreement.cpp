// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/detail/agreement.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/detail/poll.h"

namespace lockstep::comm {

namespace {

// "3 all_reduce f32 [4] 'x'": who said it, then what.
std::string signed_text(int rank, const std::string& text) { return cat(rank, " ", text); }
std::pair<int, std::string> read_signed(const std::string& text) {
  const std::size_t blank = text.find(' ');
  return {static_cast<int>(parse_int(text.substr(0, blank)).value_or(-1)), text.substr(blank + 1)};
}

// Transfers of one direction between two ranks, numbered; the same key on both sides.
std::string transfer_key(const GroupState& group, const CallState& call) {
  const int me = group.members().me;
  const int other = call.description.root;
  const bool send = call.description.operation == Operation::Send;
  return cat(
      "transfer/", group.key(), "/", send ? me : other, ">", send ? other : me, "/", call.sequence);
}

// What both sides of a transfer must give alike.
std::string transfer_text(const CallState& call) {
  CallDescription both = call.description;
  both.operation = Operation::Send;
  return text_of(both).substr(std::string("send ").size());
}

int global_rank(const GroupState& group, int member) {
  return group.members().ranks.at(static_cast<std::size_t>(member)).value;
}

}  // namespace

Facts mismatch(const GroupState& group, Where where, const Disagreement& found) {
  where.group = group.label();
  return {.fault = Fault::Mismatch,
          .where = std::move(where),
          .problem = "ranks disagree on the call",
          .expected = cat(found.a, " (rank ", found.rank_a, ")"),
          .found = cat(found.b, " (rank ", found.rank_b, ")"),
          .next = cat("Make ranks ",
                      found.rank_a,
                      " and ",
                      found.rank_b,
                      " take the same branch here and give the same shapes and types")};
}

void agree_on(GroupState& group, const CallState& call) {
  Store& store = *group.job().store;
  const std::string key = cat("agree/", group.key(), "/", call.sequence);
  const std::string mine = signed_text(group.job().rank(), text_of(call.description));
  const auto [first_rank, first_text] = read_signed(store.set_once(key, mine));
  if (first_text != text_of(call.description))
    store.set_once(key + "/differs", mine);
  std::int64_t arrived = store.add(key + "/count", 1);
  for (Poll poll; !call.ended(); poll.pause(), arrived = store.add(key + "/count", 0)) {
    // The one that differs said so before it was counted.
    if (const auto differs = store.get(key + "/differs")) {
      const auto [other_rank, other_text] = read_signed(*differs);
      throw Error(
          mismatch(group,
                   group.where(call),
                   {.rank_a = first_rank, .rank_b = other_rank, .a = first_text, .b = other_text}));
    }
    if (arrived >= group.size())
      return;
  }
}

void announce_send(GroupState& group, const CallState& call) {
  group.job().store->set(transfer_key(group, call), transfer_text(call));
}

void check_recv(GroupState& group, const CallState& call) {
  const std::string key = transfer_key(group, call);
  for (Poll poll; !call.ended(); poll.pause()) {
    const auto theirs = group.job().store->get(key);
    if (!theirs)
      continue;
    if (*theirs == transfer_text(call))
      return;
    throw Error(mismatch(group,
                         group.where(call),
                         {.rank_a = global_rank(group, call.description.root),
                          .rank_b = group.job().rank(),
                          .a = cat("send ", *theirs),
                          .b = cat("recv ", transfer_text(call))}));
  }
}

namespace {

// Takes an exchange out of the watchdog's sight, however it ends.
class Exchange {
 public:
  Exchange(GroupState& group, std::string_view subject)
      : group_(group), call_(group.begin_exchange(subject)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() { group_.end_exchange(*call_); }
  CallState& call() const { return *call_; }

 private:
  GroupState& group_;
  const std::shared_ptr<CallState> call_;
};

// Their texts, apart from the subject that each put before it.
std::vector<std::string> read_texts(GroupState& group,
                                    const CallState& call,
                                    const std::vector<std::string>& values) {
  const std::string& subject = call.description.subject;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t end = values[i].find('\0');
    const std::string theirs = values[i].substr(0, end);
    if (theirs != subject) {
      throw Error(mismatch(group,
                           group.where(call),
                           {.rank_a = group.job().rank(),
                            .rank_b = group.members().ranks[i].value,
                            .a = cat("gather_text '", subject, "'"),
                            .b = cat("gather_text '", theirs, "'")}));
    }
    texts.push_back(values[i].substr(end + 1));
  }
  return texts;
}

}  // namespace

std::vector<std::string> exchange_texts(GroupState& group,
                                        std::string_view mine,
                                        std::string_view subject) {
  Job& job = group.job();
  const std::string key = cat("text/", group.key(), "/", group.next_exchange(), "/");
  std::vector<std::string> keys;
  for (const GlobalRank rank : group.members().ranks)
    keys.push_back(cat(key, rank.value));
  const Exchange exchange(group, subject);
  CallState& call = exchange.call();
  job.store->set(cat(key, job.rank()), cat(subject, '\0', mine));
  // The watchdog ends it where members are gone, make other calls, or are late.
  for (Poll poll; !call.ended(); poll.pause()) {
    if (const auto values = job.store->get_all(keys))
      return read_texts(group, call, *values);
    if (const auto failure = job.first_failure(*job.store)) {
      const bool own = failure->rank == job.rank();
      group.fail(std::make_exception_ptr(
          Error(own ? failure->facts : consequence_of(*failure, group.where(call)))));
    }
  }
  call.wait();
  LOCKSTEP_ASSERT(false);
  return {};
}

}  // namespace lockstep::comm
