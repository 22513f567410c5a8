// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/shm/memory.h"
#include "lockstep/comm/shm/waiting.h"

namespace lockstep::comm::shm {

/// What all ranks of a group hold after they met.
struct Shared {
  Descriptor block;               ///< the memory of the group's Block
  std::vector<Descriptor> heaps;  ///< one a rank, in order; the own one too
};

/// How the ranks of a group on one machine find each other.
struct Passing {
  int rank = 0;
  int ranks = 1;
  int heap = -1;  ///< descriptor of this rank's heap
  /// Rank 0 makes the memory that all share.
  std::function<Descriptor()> make_block;
  /// Through the job's table: rank 0 leaves the name of its socket, the others look for it.
  std::function<void(std::string_view)> publish;
  std::function<std::optional<std::string>()> look_up;
  Patience patience;
};

/// Hands descriptors around over an abstract Unix socket of rank 0: it has no file, and goes with its process. Collective; every
/// wait ends at the patience. Processes of other users are not answered.
/// Errors   Environment: the system refuses a socket or a descriptor. Peer: a rank did not come in time. Stopped.
Shared pass_descriptors(const Passing& passing);

}  // namespace lockstep::comm::shm
