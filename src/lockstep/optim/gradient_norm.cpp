// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/gradient_norm.h"

#include <cmath>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::optim {

double gradient_norm(const std::vector<std::string>& names,
                     const std::vector<at::Tensor>& gradients,
                     double scale) {
  double squares = 0;
  for (std::size_t at = 0; at < gradients.size(); ++at) {
    if (gradients[at].numel() == 0)
      continue;
    const double part =
        at::linalg_vector_norm(gradients[at], 2, at::OptionalIntArrayRef(), false, at::kDouble)
            .item<double>() *
        scale;
    if (!std::isfinite(part)) {
      throw Error(
          {.fault = Fault::Numeric,
           .where = {.subject = names[at]},
           .problem = "the gradient is not finite, so no parameter was stepped",
           .found = cat("norm ", part),
           .next =
               "Lower the learning rate, clip the gradient, or look for the batch that caused it"});
    }
    squares += part * part;
  }
  return std::sqrt(squares);
}

double clip_factor(double norm, double clip) { return clip > 0 && norm > clip ? clip / norm : 1; }

}  // namespace lockstep::optim
