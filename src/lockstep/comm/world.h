// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/pure/recorder.h"
#include "lockstep/mesh/rank.h"

namespace lockstep {

namespace comm {
class WorldState;
}

struct WorldOptions {
  std::chrono::milliseconds timeout =
      std::chrono::minutes(10);  ///< of every wait: joining, connecting, each operation
  std::string backend =
      "auto";  ///< of CPU tensors: auto (gloo) | gloo | shm, for ranks of one machine
};

/// All processes of one job: who I am, the store, the watchdog, and the groups.
///
/// The rank comes from the first complete set of variables (RANK/WORLD_SIZE, PET_*, Open MPI, PMI, MVAPICH, Slurm); without
/// any it is a world of one; signs of more processes without a rank are an error. Several worlds may live in one process
/// (`of_threads`), each used by one thread.
/// Lifetime: finish() announces that this rank did all it had to; a world destroyed without it counts as a failed rank.
class World {
 public:
  static World from_environment(const WorldOptions& options = {});
  /// `size` worlds of one process for threads as ranks; they meet in memory, not over a port.
  static std::vector<World> of_threads(int size, const WorldOptions& options = {});

  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  ~World();

  GlobalRank rank() const;
  int size() const;
  int local_rank() const;
  int local_size() const;
  const std::string& rank_source() const;  ///< "RANK", "Slurm", "one process", ...
  std::chrono::milliseconds timeout() const;

  Group all() const;
  /// Groups are made from a full partition that every rank passes: each rank in exactly one part. Collective over the world;
  /// differing partitions are a Mismatch that shows both. Returns the part of this rank.
  Group group(std::string_view name, const std::vector<std::vector<GlobalRank>>& partition) const;

  Recorder& recorder() const;

  /// What this rank is doing outside operations ("loading data", "forward"), for hang reports. Cheap.
  void phase(std::string_view phase) const;

  void finish();
  /// Publishes `error` as this rank's failure, so that others stop and carry it. Call before leaving because of an error.
  void fail(const std::exception& error);

 private:
  friend std::string standing(const World& world);
  explicit World(std::shared_ptr<comm::WorldState> state);
  std::shared_ptr<comm::WorldState> state_;  // shared with its groups and the watchdog
};

}  // namespace lockstep
