// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace lockstep {

/// Who this process is in its job, and who said so.
struct RankIdentity {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  bool local_known = true;             ///< whether the variables told the local rank
  std::string source = "one process";  ///< "RANK", "PET", "Open MPI", "PMI", "MVAPICH", "Slurm"
  std::string master_address;          ///< as typed; empty: not given
  int master_port = 0;                 ///< 0: not given
  bool agent_store = false;            ///< the launcher serves the store, so every rank is a client
  int attempt = 0;                     ///< restarts so far

  /// More than one machine, as far as the variables tell.
  bool several_nodes() const { return local_size < size; }
};

using Variables = std::map<std::string, std::string>;

/// Takes the rank from the first complete set of variables: RANK/WORLD_SIZE, PET_*, Open MPI, PMI, MVAPICH, Slurm; none of
/// them is a world of one.
/// A set made by a launcher beneath another one (torchrun, lockstep run, mpirun) wins without being compared: the outer one's
/// variables are still there and count something else. Otherwise two sets that disagree are an error that prints both.
/// Errors   Environment, all findings at once: an incomplete set that tells of more processes (never rank 0 by default), sets
///          that disagree, numbers that are none or out of range.
RankIdentity identify_rank(const Variables& variables);

/// The variables of this process.
Variables process_variables();

}  // namespace lockstep
