// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/infer/pure/generate.h"

namespace lockstep::nn {
class Gpt;
}

namespace lockstep::infer {

/// The logits of a GPT for generate(): only fresh tokens are computed, the others' keys and values
/// are kept. The result shares `model` with its owner and holds one conversation. Cost: 2 * layers
/// * context * kv_width elements.
NextLogits cached_logits(std::shared_ptr<nn::Gpt> model);

}  // namespace lockstep::infer
