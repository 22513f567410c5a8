// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/torch_fwd.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/sharded/shard_update.h"

namespace lockstep::optim {

/// Euclidean norm of all gradients together times the step's scale: squares are added in fp64, over
/// the shards of each parameter and then in the order given, so every rank gets the same bits.
/// Throws Numeric, on every rank alike, naming the first parameter whose part is not finite.
/// `names[i]` belongs to `gradients[i]`.
double gradient_norm(const std::vector<std::string>& names,
                     const std::vector<at::Tensor>& gradients,
                     const UpdateStep& step);

/// The factor that brings `norm` down to `clip`, 1 where it is below or `clip` is 0.
double clip_factor(double norm, double clip);

}  // namespace lockstep::optim
