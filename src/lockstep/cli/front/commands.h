// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "lockstep/cli/common/command.h"

namespace lockstep::cli {

/// The table of `lockstep`: its own commands, and the names of those that the engine has.
std::span<const Command> front_commands();

std::function<int()> make_run(CLI::App& app);
std::function<int()> make_train(CLI::App& app);

}  // namespace lockstep::cli
