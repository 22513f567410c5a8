// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/front/commands.h"

#include <vector>

namespace lockstep::cli {

std::span<const Command> front_commands() {
  // A row without a factory names a command of the engine.
  static const std::vector<Command> commands = {};
  return commands;
}

}  // namespace lockstep::cli
