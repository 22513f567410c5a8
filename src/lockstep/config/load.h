// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/config/config.h"

namespace lockstep {

/// Reads a TOML file and lays `sets` ("section.key=value", the value TOML or a bare string) over
/// it, later ones winning.
///
/// Errors  Storage: the file cannot be read. Config: TOML syntax, with file and line; or one error
///         that lists every unknown section or key, wrong type and value out of range, each with
///         file, line and the nearest right name.
Config load_config(const std::filesystem::path& file, std::span<const std::string> sets = {});

/// The same for a text; `name` stands for the file in messages.
Config parse_config(std::string_view text,
                    std::string_view name,
                    std::span<const std::string> sets = {});

/// The configuration as TOML: every key that has a value, section by section; a comment tells which
/// of them can have no other value in this version. parse_config gives back an equal one.
std::string print_config(const Config& config);

/// The table of all keys with type, default, words and help, as Markdown, for the manual.
std::string config_reference();

}  // namespace lockstep
