// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/front/commands.h"

#include <vector>

#include "lockstep/cli/front/data.h"

namespace lockstep::cli {

std::span<const Command> front_commands() {
  // A row without a factory names a command of the engine.
  static const std::vector<Command> commands = {
      {.name = "data",
       .help = "Turn text into token files",
       .examples = "  lockstep data prepare book.txt --out data\n"
                   "  lockstep data prepare a.txt b.txt --valid-fraction 0.05 --json",
       .make = make_data},
  };
  return commands;
}

}  // namespace lockstep::cli
