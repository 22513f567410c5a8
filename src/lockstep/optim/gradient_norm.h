// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/torch_fwd.h"
#include "lockstep/optim/optimizer.h"

namespace lockstep::optim {

/// Euclidean norm of all gradients together times `scale`: squares are added in fp64 in the order
/// given, so equal gradients give equal bits on every rank. Throws Numeric naming the first
/// parameter whose part is not finite. `names[i]` belongs to `gradients[i]`.
double gradient_norm(const std::vector<std::string>& names,
                     const std::vector<at::Tensor>& gradients,
                     double scale);

/// The factor that brings `norm` down to `clip`, 1 where it is below or `clip` is 0.
double clip_factor(double norm, double clip);

}  // namespace lockstep::optim
