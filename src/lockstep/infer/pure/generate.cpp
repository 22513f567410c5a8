// SPDX-License-Identifier: Apache-2.0
#include "lockstep/infer/pure/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lockstep/base/error.h"
#include "lockstep/base/philox.h"
#include "lockstep/base/text.h"

namespace lockstep::infer {
namespace {

/// In [0, 1), 53 bits.
double uniform_at(std::uint64_t seed, std::uint64_t place) {
  const auto words =
      philox({static_cast<std::uint32_t>(place), static_cast<std::uint32_t>(place >> 32), 0, 0},
             mix(seed ^ hash_name("generate")));
  const std::uint64_t wide = (std::uint64_t{words[0]} << 32) | words[1];
  return static_cast<double>(wide >> 11) * 0x1p-53;
}

void need_finite(std::span<const float> logits) {
  LOCKSTEP_ASSERT(!logits.empty());
  for (std::size_t token = 0; token < logits.size(); ++token) {
    if (!std::isfinite(logits[token])) {
      throw Error({.fault = Fault::Numeric,
                   .where = {.operation = "generate"},
                   .problem = cat("the logit of token ", token, " is not finite"),
                   .next = "Check the checkpoint; its training may have diverged"});
    }
  }
}

void check(const GenerateOptions& options) {
  std::vector<Finding> findings;
  if (!(options.sampling.temperature >= 0.0 && std::isfinite(options.sampling.temperature))) {
    findings.push_back({.where = "--temperature",
                        .what = cat("must be at least 0, is ", options.sampling.temperature),
                        .next = "Use 0 for the likeliest token"});
  }
  if (!(options.sampling.top_p > 0.0 && options.sampling.top_p <= 1.0)) {
    findings.push_back({.where = "--top-p",
                        .what = cat("must be in (0, 1], is ", options.sampling.top_p),
                        .next = "Use 1 for all tokens"});
  }
  if (options.max_new_tokens < 0) {
    findings.push_back({.where = "--max-new-tokens",
                        .what = cat("must be at least 0, is ", options.max_new_tokens),
                        .next = "Set a count"});
  }
  if (options.context < 1) {
    findings.push_back({.where = "context",
                        .what = cat("must be at least 1, is ", options.context),
                        .next = "Give the model's context"});
  }
  throw_findings(Fault::Config, "text cannot be generated", findings);
}

/// Length of the UTF-8 sequence at the start of `bytes`, 0 where there is none.
std::size_t sequence_length(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) {
    return 1;
  }
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < length) {
    return 0;
  }
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) {
      return 0;
    }
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) >= 0xA0;
  const bool too_large = first == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

std::int64_t sample(std::span<const float> logits,
                    const SamplingOptions& options,
                    std::uint64_t place) {
  need_finite(logits);
  if (options.temperature == 0.0) {
    return std::max_element(logits.begin(), logits.end()) - logits.begin();
  }
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return logits[a] > logits[b];
  });
  std::vector<double> share(order.size());
  double total = 0.0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    share[i] =
        std::exp((static_cast<double>(logits[order[i]]) - static_cast<double>(logits[order[0]])) /
                 options.temperature);
    total += share[i];
  }
  double kept = 0.0;
  std::size_t count = 0;
  while (count < order.size() && (count == 0 || kept < options.top_p * total)) {
    kept += share[count++];
  }
  double left = uniform_at(options.seed, place) * kept;
  for (std::size_t i = 0; i < count; ++i) {
    left -= share[i];
    if (left < 0.0) {
      return static_cast<std::int64_t>(order[i]);
    }
  }
  return static_cast<std::int64_t>(order[count - 1]);
}

std::vector<std::int64_t> generate(std::span<const std::int64_t> prompt,
                                   const NextLogits& next,
                                   const GenerateOptions& options) {
  check(options);
  if (prompt.empty()) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = "--prompt"},
                 .problem = "the prompt is empty",
                 .next = "Give at least one character"});
  }
  const auto context = static_cast<std::size_t>(options.context);
  const std::span<const std::int64_t> seen = prompt.last(std::min(prompt.size(), context));
  std::vector<std::int64_t> window(seen.begin(), seen.end());
  std::vector<std::int64_t> made;
  std::size_t fresh = window.size();
  for (std::int64_t place = 0; place < options.max_new_tokens; ++place) {
    if (window.size() > context) {
      window.erase(
          window.begin(),
          window.end() - static_cast<std::ptrdiff_t>(std::max<std::size_t>(context / 2, 1)));
      fresh = window.size();
    }
    const std::int64_t token =
        sample(next(window, fresh), options.sampling, static_cast<std::uint64_t>(place));
    made.push_back(token);
    window.push_back(token);
    fresh = 1;
    if (options.on_token) {
      options.on_token(token);
    }
  }
  return made;
}

std::string printable_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    text += length == 0 ? std::string_view("\xEF\xBF\xBD") : bytes.substr(0, length);
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return text;
}

}  // namespace lockstep::infer
