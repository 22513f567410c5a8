// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::optim {

/// Parameters whose name matches `match` (a glob: `*` any text, `?` one character) get these
/// instead of the defaults.
struct GroupOptions {
  std::string match;
  std::optional<double> lr;
  std::optional<double> weight_decay;
};

bool glob_matches(std::string_view glob, std::string_view name);

/// For each name the group it belongs to, -1 for none; where several match, the first one listed.
/// Errors: Config naming each group that matches no name at all, with the nearest name.
std::vector<int> assign_groups(std::span<const std::string> names,
                               std::span<const GroupOptions> groups);

}  // namespace lockstep::optim
