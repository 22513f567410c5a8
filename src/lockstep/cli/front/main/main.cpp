// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/common/engine.h"
#include "lockstep/cli/front/commands.h"

int main(int argc, char** argv) {
  using namespace lockstep::cli;
  return run_program({.name = "lockstep",
                      .description = "Distributed deep-learning training in C++ on libtorch.",
                      .commands = front_commands(),
                      .run_elsewhere = exec_engine},
                     argc,
                     argv);
}
