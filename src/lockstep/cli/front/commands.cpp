// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/front/commands.h"

#include <array>

#include "lockstep/cli/front/data.h"

namespace lockstep::cli {

std::span<const Command> front_commands() {
  // A row without a factory names a command of the engine.
  static constexpr std::array kCommands = {
      Command{.name = "run",
              .help = "Start one process a rank, of any program",
              .examples = "  lockstep run -n 4 -- ./my_program --lr 0.1\n"
                          "  lockstep run -n 2 --log-dir logs train.py\n"
                          "  lockstep run --nnodes 2 --node-rank 1 --master-addr 10.0.0.1 -n 8 -- "
                          "./my_program\n",
              .make = make_run},
      Command{.name = "data",
              .help = "Turn text into token files",
              .examples = "  lockstep data prepare book.txt --out data\n"
                          "  lockstep data prepare a.txt b.txt --valid-fraction 0.05 --json",
              .make = make_data},
      Command{.name = "info",
              .help = "Ranks, mesh, backends and devices, as each process sees them"},
      Command{.name = "train",
              .help = "Train a model; outside a launcher it starts its own ranks",
              .examples = "  lockstep train configs/demo.toml -n 2\n"
                          "  lockstep train configs/demo.toml -n 2 --resume --steps 400\n"
                          "  lockstep train configs/tiny.toml --set optimizer.lr=3e-4 --out "
                          "runs/low --metrics low.jsonl\n",
              .make = make_train},
      Command{.name = "generate",
              .help = "Write text with a checkpoint",
              .examples = "  lockstep generate runs/demo --prompt \"In the beginning \"\n"},
  };
  return kCommands;
}

}  // namespace lockstep::cli
