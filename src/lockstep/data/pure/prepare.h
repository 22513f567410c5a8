// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct PrepareOptions {
  std::vector<std::string> files;  ///< text, taken one after the other
  std::string tokenizer = "byte";
  std::filesystem::path out;    ///< folder; made where it is not there
  double valid_fraction = 0.1;  ///< of the tokens, from the end; 0: no validation file
  std::function<void(std::uint64_t done_bytes, std::uint64_t all_bytes)> progress = {};
};

struct Prepared {
  std::filesystem::path train_file;
  std::filesystem::path valid_file;  ///< empty without one
  std::uint64_t train_tokens = 0;
  std::uint64_t valid_tokens = 0;
  std::uint64_t vocab = 0;
  /// Mean -ln p of the validation tokens under their own frequencies: a model that has learned
  /// anything is below it. In nats.
  double valid_unigram_entropy = 0;
};

/// Turns text into train.tokens and valid.tokens. Both appear only when both are whole, and a
/// valid.tokens of an earlier text is gone before: a failure or kill at any point leaves the old
/// pair, the new pair, or a training file alone.
/// Errors  Storage: an input is missing or empty, the disk is full. Config: tokenizer.
///         Usage: fraction.
Prepared prepare_tokens(const PrepareOptions& options);

/// -sum p ln p of a histogram, in nats; 0 for an empty one.
double unigram_entropy(const std::vector<std::uint64_t>& counts);

}  // namespace lockstep
