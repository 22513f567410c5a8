// SPDX-License-Identifier: Apache-2.0
#include "lockstep/region/region.h"

#include <ATen/core/Tensor.h>

namespace lockstep {

Tensors Region::run(std::string_view, const Tensors& inputs, const RegionBody& body) {
  return body(inputs);
}

}  // namespace lockstep
