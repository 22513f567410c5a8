// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/engine/commands.h"

#include <array>

namespace lockstep::cli {

std::span<const Command> engine_commands() {
  static constexpr std::array kCommands = {
      Command{.name = "store", .make = make_store},  // hidden: what the launcher starts to serve the ranks' store
  };
  return kCommands;
}

}  // namespace lockstep::cli
