// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>

namespace lockstep {

/// A rank of the whole world. Not interchangeable with a rank inside a group.
struct GlobalRank {
  int value = 0;
  auto operator<=>(const GlobalRank&) const = default;
};

/// A rank's position inside one group.
struct GroupRank {
  int value = 0;
  auto operator<=>(const GroupRank&) const = default;
};

}  // namespace lockstep
