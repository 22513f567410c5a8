// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "lockstep/parallel/sharded/parameter_table.h"

namespace lockstep::sharded {

/// In C++ a module's member (`layer->weight`) and its registered parameter are two handles;
/// assigning a new tensor to the member leaves the registry as it was, and the new tensor's
/// gradient would never be reduced.
///
/// Called at the end of a backward for the parameters that have newly got no gradient. Throws Usage
/// naming one of them when the graph of this backward ends in a leaf of the same shape and type
/// that is no registered parameter. Scalars are not judged: an
/// input that wants a gradient too often has their shape.
void refuse_stray_leaves(const ParameterTable& table, const std::vector<int>& missing);

}  // namespace lockstep::sharded
