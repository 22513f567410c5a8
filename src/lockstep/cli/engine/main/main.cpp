// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/engine/commands.h"

int main(int argc, char** argv) {
  using namespace lockstep::cli;
  return run_program(
      {.name = "lockstep",  // messages name what the user typed
       .description = "The commands of lockstep that need libtorch; lockstep starts it.",
       .commands = engine_commands()},
      argc,
      argv);
}
