// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/model/model_spec.h"

namespace lockstep {

/// What cannot work in a GPT's values, all at once: sizes below 1, a width that the heads do not
/// divide (with the numbers of heads that would), key/value heads that do not divide the heads, a
/// dropout outside [0, 1). `where` goes before each key.
std::vector<Finding> check(const GptConfig& config, const std::string& where);
std::vector<Finding> check(const MlpConfig& config, const std::string& where);

/// The parameters of a GPT, shapes with C width, V vocabulary, T context, F ffn_width, H heads, K
/// kv_heads, D head width:
///   embedding.token.weight [V, C], embedding.position.weight [T, C]
///   layers.i: norm1 [C], attention.qkv [(H + 2K) D, C] in segments q|k|v, attention.out [C, C],
///             norm2 [C], mlp.fc1 [F, C], mlp.fc2 [C, F], each with a bias
///   head.norm [C] with bias, head.weight [V, C], an alias of embedding.token.weight where tied
/// Normal of std 0.02, the two matrices that end a residual branch 0.02 / sqrt(2 layers); biases 0,
/// norms 1. Throws Config with the findings of check().
/// Source: Radford et al. 2019 (GPT-2).
ModelSpec gpt_spec(std::string name, GptConfig config);

/// layers.i.weight [out, in] and layers.i.bias [out]; uniform of bound 1 / sqrt(in), as torch's
/// Linear.
ModelSpec mlp_spec(std::string name, const MlpConfig& config);

}  // namespace lockstep
