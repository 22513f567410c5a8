// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/pure/tokenizer.h"

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace {

class ByteTokenizer : public Tokenizer {
 public:
  const std::string& name() const override { return name_; }
  std::int64_t vocab() const override { return 256; }

  std::vector<std::int64_t> encode(std::string_view text) const override {
    std::vector<std::int64_t> tokens;
    tokens.reserve(text.size());
    for (const char letter : text)
      tokens.push_back(static_cast<unsigned char>(letter));
    return tokens;
  }

  std::string decode(std::span<const std::int64_t> tokens) const override {
    std::string text;
    for (const std::int64_t token : tokens) {
      LOCKSTEP_ASSERT(token >= 0 && token < vocab());
      text += static_cast<char>(static_cast<unsigned char>(token));
    }
    return text;
  }

 private:
  std::string name_ = "byte";
};

Error config_error(std::string_view name, std::string problem) {
  return Error({.fault = Fault::Config,
                .where = {.subject = cat("tokenizer ", name)},
                .problem = std::move(problem),
                .next = "Use --tokenizer byte"});
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view name) {
  if (name == "byte")
    return std::make_unique<ByteTokenizer>();
  for (const std::string_view kind : {"sentencepiece:", "hf:"}) {
    if (name.starts_with(kind))
      throw config_error(name, cat("tokenizers of the kind '", kind, "' are not in this version"));
  }
  const std::vector<std::string> known = {"byte", "sentencepiece:FILE", "hf:tokenizer.json"};
  throw config_error(name, cat("there is no such tokenizer", did_you_mean(name, known)));
}

}  // namespace lockstep
