// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/detail/poll.h"
#include "lockstep/comm/detail/world_state.h"

namespace lockstep::comm {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kReportEvery = std::chrono::seconds(3);

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// The address of this machine on the way to `host`, as its routes say; nothing is sent.
std::string address_towards(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), cat(port).c_str(), &hints, &found) != 0)
    return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
  const int fd = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  std::array<char, 128> text{};
  const bool known = ::connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
                     ::getnameinfo(reinterpret_cast<sockaddr*>(&own),
                                   length,
                                   text.data(),
                                   text.size(),
                                   nullptr,
                                   0,
                                   NI_NUMERICHOST) == 0;
  ::close(fd);
  return known ? text.data() : "";
}

std::string reachable_host(const RankIdentity& identity) {
  // A loopback address that was typed is asked for.
  if (is_loopback(identity.master_address))
    return identity.master_address;
  const std::string host = address_towards(identity.master_address, identity.master_port);
  if (host.empty() || (is_loopback(host) && identity.several_nodes())) {
    throw Error(
        {.fault = Fault::Environment,
         .where = {.rank = identity.rank, .subject = cat("MASTER_ADDR=", identity.master_address)},
         .problem = host.empty() ? "no route leads to the master address"
                                 : cat("the way to the master leads over ",
                                       host,
                                       ", a loopback address that no other node can reach"),
         .next = "Set MASTER_ADDR to an address of rank 0's machine that all nodes reach"});
  }
  log(LogLevel::Info, cat("peers reach this rank at ", host));
  return host;
}

std::vector<std::string> missing_ranks(Job& job) {
  std::vector<std::string> missing;
  for (int rank = 0; rank < job.size(); ++rank) {
    if (!job.store->get(cat("member/", rank)))
      missing.push_back(cat(rank));
  }
  return missing;
}

void claim_rank(Job& job) {
  const std::string mine = to_json(job.own_card);
  const std::string claimed = job.store->set_once(cat("member/", job.rank()), mine);
  if (claimed == mine)
    return;
  const ProcessCard other = process_card_from_json(claimed);
  throw Error(
      {.fault = Fault::Environment,
       .where = {.rank = job.rank()},
       .problem = cat("rank ",
                      job.rank(),
                      " was claimed twice: by process ",
                      other.pid,
                      " on ",
                      other.host,
                      ", and by process ",
                      job.own_card.pid,
                      " on ",
                      job.own_card.host),
       .next = cat(
           "Give every process its own rank; each of 0 to ", job.size() - 1, " is needed once")});
}

Error not_all_came(Job& job, const std::vector<std::string>& missing) {
  return Error(
      {.fault = Fault::Peer,
       .where = {.rank = job.rank()},
       .problem = cat("after ",
                      human_seconds(std::chrono::duration<double>(job.join_timeout).count()),
                      " only ",
                      job.size() - static_cast<int>(missing.size()),
                      " of ",
                      job.size(),
                      " ranks came; missing ranks ",
                      cut_list(missing, 32)),
       .next = "Start the missing ranks with the same MASTER_ADDR and MASTER_PORT, or "
               "correct WORLD_SIZE"});
}

// Variables that name no local rank: the ranks of one machine, in order.
void count_local_ranks(Job& job) {
  int local_size = 0;
  for (int rank = 0; rank < job.size(); ++rank) {
    const ProcessCard& card = *job.card(rank);
    if (card.host != job.own_card.host || card.machine != job.own_card.machine)
      continue;
    if (rank == job.rank())
      job.identity.local_rank = local_size;
    ++local_size;
  }
  job.identity.local_size = local_size;
}

}  // namespace

void open_stores(Job& job) {
  const RankIdentity& identity = job.identity;
  if (identity.master_address.empty() || identity.master_port == 0) {
    throw Error(
        {.fault = Fault::Environment,
         .where = {.rank = identity.rank,
                   .subject = identity.master_address.empty() ? "MASTER_ADDR" : "MASTER_PORT"},
         .problem = cat("the master address is missing: ",
                        identity.size,
                        " ranks (from ",
                        identity.source,
                        ") have no place to meet"),
         .next = "Set MASTER_ADDR and MASTER_PORT to an address of rank 0's machine and a free "
                 "port there, or start with `lockstep run`"});
  }
  job.host = reachable_host(identity);
  const StoreAddress address{.host = identity.master_address, .port = identity.master_port};
  const std::string prefix = cat("lockstep/", identity.attempt, "/");
  job.serves_store = identity.rank == 0 && !identity.agent_store;
  job.store = job.serves_store ? serve_store(address, prefix, job.join_timeout)
                               : connect_store(address, prefix, job.join_timeout);
  job.watch_store = job.store->connect_again();
}

void join(Job& job) {
  job.own_card = own_process_card();
  claim_rank(job);
  job.tell_joined();
  std::vector<std::string> keys;
  for (int rank = 0; rank < job.size(); ++rank)
    keys.push_back(cat("member/", rank));
  std::int64_t here = job.store->add("joined", 1);
  const auto start = Clock::now();
  auto next_report = start + kReportEvery;
  for (Poll poll; here < job.size(); poll.pause(), here = job.store->add("joined", 0)) {
    const auto now = Clock::now();
    if (const auto failure = job.first_failure(*job.store)) {
      throw Error(consequence_of(*failure, {.rank = job.rank()}));
    }
    if (now - start > job.join_timeout)
      throw not_all_came(job, missing_ranks(job));
    if (now > next_report) {
      next_report = now + kReportEvery;
      const auto missing = missing_ranks(job);
      log(LogLevel::Warning,
          cat("rank ",
              job.rank(),
              " waits: have ",
              job.size() - static_cast<int>(missing.size()),
              " of ",
              job.size(),
              ", missing ranks ",
              cut_list(missing, 32)));
    }
  }
  const auto cards = job.store->get_all(keys);
  LOCKSTEP_ASSERT(cards.has_value());
  for (const std::string& text : *cards)
    job.cards.push_back(process_card_from_json(text));
  if (!job.identity.local_known)
    count_local_ranks(job);
}

void join_or_fail(Job& job) {
  try {
    join(job);
  } catch (const std::exception& error) {
    const Failure failure = failure_of(job.rank(), error);
    job.publish(failure);
    job.tell_failed(failure, false);
    // Whoever serves the store keeps it until the others have seen this.
    if (job.serves_store)
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    throw;
  }
}

}  // namespace lockstep::comm
