// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "lockstep/cli/common/command.h"

namespace lockstep::cli {

/// The table of `lockstep-engine`: the commands that need libtorch. Each has a row in the table of `lockstep` too,
/// but for the hidden ones.
std::span<const Command> engine_commands();

std::function<int()> make_info(CLI::App& app);
std::function<int()> make_generate(CLI::App& app);
std::function<int()> make_store(CLI::App& app);
std::function<int()> make_train(CLI::App& app);

}  // namespace lockstep::cli
