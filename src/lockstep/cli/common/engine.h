// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace lockstep::cli {

/// The program with the commands that need libtorch: it lies beside the one that runs.
/// Throws Environment when it is not there.
std::filesystem::path engine_program();

/// Becomes the engine with the same arguments; returns only by throwing Environment.
int exec_engine(std::span<const std::string> arguments);

}  // namespace lockstep::cli
