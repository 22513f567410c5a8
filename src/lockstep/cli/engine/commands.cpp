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
      Command{
          .name = "train",
          .help = "Train a model, as one rank of a launcher",
          .examples = "  lockstep run -n 2 -- lockstep train configs/tiny.toml --out runs/tiny\n",
          .make = make_train},
      Command{.name = "generate",
              .help = "Write text with a checkpoint",
              .examples = "  lockstep generate runs/demo --prompt \"In the beginning \"\n"
                          "  lockstep generate runs/demo/checkpoints/step-000200 --prompt \"And \" "
                          "--temperature 0 --json\n",
              .make = make_generate},
      Command{.name = "store",
              .make = make_store},  // hidden: what the launcher starts to serve the ranks' store
  };
  return kCommands;
}

}  // namespace lockstep::cli
