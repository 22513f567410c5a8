// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/base/torch_fwd.h"
#include "lockstep/parallel/tensor/forward_context.h"

namespace lockstep::tensor {

/// A place of the model where dropout acts.
struct DropoutSite {
  std::uint64_t id = 0;  ///< hash_name of its name
  double rate = 0.0;
};

/// x [B, ...] with elements zeroed at the site's rate and the rest scaled by 1 / (1 - rate); x
/// itself when not training or the rate is 0. The mask is that of pure/keep_mask.h for sample
/// context.samples[b] and the element's place within the sample.
/// Cost: the mask is computed in
/// forward and again in backward, on the CPU; nothing is kept between them.
/// Errors: Usage when
/// context.samples has not one id for each of the B rows.
at::Tensor dropout(const at::Tensor& x, const DropoutSite& site, const ForwardContext& context);

}  // namespace lockstep::tensor
