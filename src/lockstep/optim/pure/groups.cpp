// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/pure/groups.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::optim {

bool glob_matches(std::string_view glob, std::string_view name) {
  std::size_t g = 0, n = 0;
  std::size_t star = std::string_view::npos, star_name = 0;
  while (n < name.size()) {
    if (g < glob.size() && (glob[g] == '?' || (glob[g] == name[n] && glob[g] != '*'))) {
      ++g, ++n;
    } else if (g < glob.size() && glob[g] == '*') {
      star = g++;
      star_name = n;
    } else if (star != std::string_view::npos) {
      g = star + 1;  // the last star takes one character more
      n = ++star_name;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', g) == std::string_view::npos;
}

std::vector<int> assign_groups(std::span<const std::string> names,
                               std::span<const GroupOptions> groups) {
  std::vector<int> assigned(names.size(), -1);
  std::vector<Finding> findings;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    bool matched = false;
    for (std::size_t at = 0; at < names.size(); ++at) {
      if (!glob_matches(groups[group].match, names[at]))
        continue;
      matched = true;
      if (assigned[at] < 0)
        assigned[at] = static_cast<int>(group);
    }
    if (!matched) {
      findings.push_back(
          {cat("optimizer.group ", group, ", match = \"", groups[group].match, "\""),
           cat("no parameter has such a name", did_you_mean(groups[group].match, names)),
           "Correct the pattern, or remove the group"});
    }
  }
  throw_findings(Fault::Config, "a parameter group is empty", findings);
  return assigned;
}

}  // namespace lockstep::optim
