// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Text to tokens and back.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// What token files and checkpoints record; make_tokenizer takes it.
  virtual const std::string& name() const = 0;
  virtual std::int64_t vocab() const = 0;
  virtual std::vector<std::int64_t> encode(std::string_view text) const = 0;
  virtual std::string decode(std::span<const std::int64_t> tokens) const = 0;
};

/// "byte": every byte is a token, 256 in all; any text survives encode and decode.
/// Errors  Config: a name that is not known, or a kind that is not built.
std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name);

}  // namespace lockstep
