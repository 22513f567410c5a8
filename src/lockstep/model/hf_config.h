// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/model/model_spec.h"

namespace lockstep {

/// The model of a Hugging Face config.json with model_type gpt2 (n_layer, n_embd, n_head, n_inner,
/// vocab_size, n_positions, *_pdrop, tie_word_embeddings, layer_norm_epsilon; absent keys have the
/// defaults of that format).
/// `file` is only for messages.
/// Throws Config for text that is no JSON object, another model_type
/// (naming those supported), a value of the wrong kind, and settings this GPT does not have
/// (another activation, unequal dropout rates), all at once.
GptConfig parse_hf_config(std::string_view json, const std::string& file);

/// The same, read from a file or from the config.json of a folder.
/// Throws Storage when it cannot be
/// read.
GptConfig read_hf_config(const std::string& path);

}  // namespace lockstep
