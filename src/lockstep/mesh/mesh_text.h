// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "lockstep/mesh/mesh.h"

namespace lockstep {

/// "pp=2,tp=4" as a mesh of `ranks` ranks; what the named axes leave goes to dp_replicate unless that is named.
/// Names: pp, dp_replicate, dp_shard, cp, tp, tp_depth, tp_row.
/// Errors  Usage: an unknown name (with the nearest right one), no whole number, or sizes that do not multiply to `ranks`.
Mesh parse_mesh(std::string_view text, int ranks);

}  // namespace lockstep
