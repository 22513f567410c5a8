// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/world.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/env.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/detail/agreement.h"
#include "lockstep/comm/detail/world_state.h"
#include "lockstep/comm/rank_report.h"
#include "lockstep/comm/shm/heap.h"

namespace lockstep {

namespace {

std::shared_ptr<comm::Job> make_job(const RankIdentity& identity, const WorldOptions& options) {
  if (options.backend != "auto" && options.backend != "gloo" && options.backend != "shm") {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "comm.backend"},
                 .problem = "there is no such backend",
                 .expected = "auto, gloo or shm",
                 .found = options.backend,
                 .next = "Set comm.backend = auto"});
  }
  auto job = std::make_shared<comm::Job>();
  job->identity = identity;
  job->timeout = options.timeout;
  job->transport = options.backend;
  if (options.backend == "shm")
    job->heap = std::make_shared<comm::shm::Heap>();
  // `lockstep run --rdzv-conf timeout=` governs only how long the ranks wait for each other.
  const auto meeting = env_int("LOCKSTEP_RENDEZVOUS_TIMEOUT_SECONDS");
  job->join_timeout = meeting ? std::chrono::seconds(*meeting) : options.timeout;
  return job;
}

std::string text_of(const std::vector<std::vector<GlobalRank>>& partition) {
  std::vector<std::string> parts;
  for (const auto& part : partition) {
    std::vector<std::string> ranks;
    for (const GlobalRank rank : part)
      ranks.push_back(cat(rank.value));
    parts.push_back(cat("{", join(ranks, " "), "}"));
  }
  return join(parts, " ");
}

void check_partition(const std::vector<std::vector<GlobalRank>>& partition,
                     std::string_view name,
                     int size,
                     int rank) {
  std::vector<int> ranks;
  for (const auto& part : partition) {
    for (const GlobalRank member : part)
      ranks.push_back(member.value);
  }
  std::sort(ranks.begin(), ranks.end());
  bool whole = static_cast<int>(ranks.size()) == size;
  for (int i = 0; whole && i < size; ++i)
    whole = ranks[static_cast<std::size_t>(i)] == i;
  if (whole)
    return;
  throw Error({.fault = Fault::Usage,
               .where = {.rank = rank, .subject = cat("group ", name)},
               .problem = "the parts do not hold each rank exactly once",
               .expected = cat("every rank from 0 to ", size - 1, " in one part"),
               .found = text_of(partition),
               .next = "Pass the whole partition on every rank"});
}

}  // namespace

World::World(std::shared_ptr<comm::WorldState> state) : state_(std::move(state)) {}
World::World(World&&) noexcept = default;
World& World::operator=(World&&) noexcept = default;
World::~World() = default;

World World::from_environment(const WorldOptions& options) {
  auto job = make_job(identify_rank(process_variables()), options);
  if (job->size() == 1) {
    job->store = comm::store_in_memory();
    job->own_card = own_process_card();
    job->tell_joined();
  } else {
    comm::open_stores(*job);
    comm::join_or_fail(*job);
  }
  World world(std::make_shared<comm::WorldState>(job));
  try {
    world.state_->all()->wait_until_connected();
  } catch (const std::exception& error) {
    world.fail(error);
    throw;
  }
  return world;
}

std::vector<World> World::of_threads(int size, const WorldOptions& options) {
  const std::shared_ptr<comm::Store> store = comm::store_in_memory();
  std::vector<World> worlds;
  for (int rank = 0; rank < size; ++rank) {
    auto job = make_job(
        {.rank = rank, .size = size, .local_rank = rank, .local_size = size, .source = "threads"},
        options);
    job->store = store;
    job->watch_store = store;
    job->host = "127.0.0.1";
    worlds.push_back(World(std::make_shared<comm::WorldState>(job)));
  }
  for (World& world : worlds)
    world.state_->all()->wait_until_connected();
  return worlds;
}

GlobalRank World::rank() const { return {state_->job().rank()}; }
int World::size() const { return state_->job().size(); }
int World::local_rank() const { return state_->job().identity.local_rank; }
int World::local_size() const { return state_->job().identity.local_size; }
const std::string& World::rank_source() const { return state_->job().identity.source; }
std::chrono::milliseconds World::timeout() const { return state_->job().timeout; }
Recorder& World::recorder() const { return state_->job().recorder; }
Group World::all() const { return Group(state_->all()); }
void World::phase(std::string_view phase) const { state_->job().set_phase(phase); }
void World::finish() { state_->finish(); }
void World::fail(const std::exception& error) { state_->fail(error); }

Group World::group(std::string_view name,
                   const std::vector<std::vector<GlobalRank>>& partition) const {
  const std::string mine = text_of(partition);
  const std::vector<std::string> theirs = all().gather_text(mine, cat("partition of group ", name));
  for (int other = 0; other < size(); ++other) {
    const std::string& text = theirs[static_cast<std::size_t>(other)];
    if (text == mine)
      continue;
    throw Error({.fault = Fault::Mismatch,
                 .where = {.rank = rank().value, .subject = cat("group ", name)},
                 .problem = "ranks pass different partitions",
                 .expected = cat(mine, " (rank ", rank().value, ")"),
                 .found = cat(text, " (rank ", other, ")"),
                 .next = "Pass the same whole partition on every rank"});
  }
  check_partition(partition, name, size(), rank().value);
  for (const auto& part : partition) {
    const auto place = std::find(part.begin(), part.end(), rank());
    if (place == part.end())
      continue;
    return Group(state_->add_group(
        {.name = std::string(name), .ranks = part, .me = static_cast<int>(place - part.begin())}));
  }
  LOCKSTEP_ASSERT(false);
  return all();
}

std::string standing(const World& world) { return world.state_->standing(); }

}  // namespace lockstep
