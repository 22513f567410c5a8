// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

struct Assignment {
  std::string name;
  std::string value;
  bool operator==(const Assignment&) const = default;
};

/// KEY=VALUE lines. Empty lines and lines that start with '#' are skipped, "export " before the key is dropped, CR before LF too.
/// A value is the bytes after the first '=', not expanded in any way; one pair of quotes around the whole of it is taken off.
/// Throws Config with every bad line, its number and its text. `name` is what messages call the file.
std::vector<Assignment> parse_env_file(std::string_view text, std::string_view name);

/// Throws Environment when the file cannot be read.
std::vector<Assignment> read_env_file(const std::filesystem::path& path);

}  // namespace lockstep::launch
