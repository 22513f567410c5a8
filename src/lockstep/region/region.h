// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "lockstep/base/torch_fwd.h"

namespace lockstep {

using Tensors = std::vector<at::Tensor>;
using RegionBody = std::function<Tensors(const Tensors&)>;

/// The seam through which every block of a model runs, so that techniques meet a model that knows none of them.
///
/// C++ modules have no hooks and their forward is not virtual; a block therefore calls run(name, inputs, body) and what must
/// happen around it (gather and free parameters, recompute, trace) is a decorator of this class. The default just runs `body`.
/// Decorators are composed by `strategy`, outermost first: trace, shard, recompute.
/// Name: that of the module ("layers.3"), the same on every rank. Called once per use and forward, also again by recomputation.
class Region {
 public:
  virtual ~Region() = default;
  virtual Tensors run(std::string_view name, const Tensors& inputs, const RegionBody& body);
};

}  // namespace lockstep
