// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::infer {

struct SamplingOptions {
  double temperature = 1.0;  ///< 0: always the likeliest token; higher: more even
  double top_p = 1.0;  ///< only the likeliest tokens that together have this share, at least one
  std::uint64_t seed = 0;
};

/// The token drawn from softmax(logits / temperature), cut to top_p. `place` counts the tokens
/// drawn before this one. A function of its arguments: the same seed gives the same text on any
/// machine whose logits are the same. Equal logits go by the lower token.
/// Throws Numeric for a
/// logit that is not finite.
std::int64_t sample(std::span<const float> logits,
                    const SamplingOptions& options,
                    std::uint64_t place);

/// Logits [V] after `window`. Its last `fresh` tokens are new since the call before; all of them
/// are when the window was moved. One that keeps no cache reads the whole window each time.
using NextLogits =
    std::function<std::vector<float>(std::span<const std::int64_t> window, std::size_t fresh)>;

struct GenerateOptions {
  std::int64_t max_new_tokens = 200;
  std::int64_t context = 0;  ///< tokens the model can see at once
  SamplingOptions sampling;
  std::function<void(std::int64_t)>
      on_token;  ///< called with each token as it is drawn; may be empty
};

/// The tokens that follow `prompt`. When the window is full it moves on so that half a context
/// stays; a prompt longer than the context counts by its last tokens.
/// Throws Usage for an empty
/// prompt, and Config with every option out of range.
std::vector<std::int64_t> generate(std::span<const std::int64_t> prompt,
                                   const NextLogits& next,
                                   const GenerateOptions& options);

/// `bytes` with what is no UTF-8 replaced by U+FFFD, so that a terminal can show it.
std::string printable_utf8(std::string_view bytes);

}  // namespace lockstep::infer
