// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/model.h"

#include "lockstep/base/error.h"
#include "lockstep/nn/gpt.h"
#include "lockstep/nn/mlp.h"

namespace lockstep::nn {

std::shared_ptr<Model> build_model(const ModelSpec& spec, const BuildOptions& options) {
  if (!c10::isFloatingType(options.dtype)) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = spec.name},
                 .problem = "parameters must have a floating type",
                 .found = c10::toString(options.dtype),
                 .next = "Use fp64, fp32, bf16 or fp16"});
  }
  if (spec.is_gpt()) {
    return std::make_shared<Gpt>(spec, options);
  }
  return std::make_shared<Mlp>(spec, options);
}

}  // namespace lockstep::nn
