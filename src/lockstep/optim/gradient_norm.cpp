// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/gradient_norm.h"

#include <cmath>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::optim {

double gradient_norm(const std::vector<std::string>& names,
                     const std::vector<at::Tensor>& gradients,
                     const UpdateStep& step) {
  std::vector<double> squares(gradients.size(), 0);
  for (std::size_t at = 0; at < gradients.size(); ++at) {
    if (gradients[at].numel() == 0)
      continue;
    const double part =
        at::linalg_vector_norm(gradients[at], 2, at::OptionalIntArrayRef(), false, at::kDouble)
            .item<double>() *
        step.scale;
    squares[at] = part * part;
  }
  if (step.add_over_shards)
    step.add_over_shards(squares);
  double sum = 0;
  for (std::size_t at = 0; at < squares.size(); ++at) {
    if (!std::isfinite(squares[at])) {
      throw Error(
          {.fault = Fault::Numeric,
           .where = {.subject = names[at]},
           .problem = "the gradient is not finite, so no parameter was stepped",
           .found = cat("norm ", std::sqrt(squares[at])),
           .next =
               "Lower the learning rate, clip the gradient, or look for the batch that caused it"});
    }
    sum += squares[at];
  }
  return std::sqrt(sum);
}

double clip_factor(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1; }

}  // namespace lockstep::optim
