// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/engine/commands.h"

#include <array>

namespace lockstep::cli {

std::span<const Command> engine_commands() {
  static constexpr std::array kCommands = {
      Command{.name = "info",
              .help = "Ranks, mesh, backends and devices, as each process sees them",
              .examples = "  lockstep info\n"
                          "  lockstep run -n 4 -- lockstep info --mesh tp=2\n"
                          "  lockstep run -n 4 -- lockstep info --json",
              .make = make_info},
      Command{.name = "store", .make = make_store},  // hidden: what the launcher starts to serve the ranks' store
  };
  return kCommands;
}

}  // namespace lockstep::cli
