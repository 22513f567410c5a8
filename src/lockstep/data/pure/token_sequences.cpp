// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/pure/token_file.h"

namespace lockstep {

namespace {

Error config_error(std::string subject, std::string problem, std::string next) {
  return Error({.fault = Fault::Config,
                .where = {.subject = std::move(subject)},
                .problem = std::move(problem),
                .next = std::move(next)});
}

}  // namespace

TokenSequences::TokenSequences(std::span<const std::string> files, std::int64_t sequence)
    : sequence_(sequence) {
  if (sequence < 1) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "token files"},
                 .problem = "a sequence has at least 1 token",
                 .found = cat(sequence),
                 .next = "Give the number of tokens of a sample"});
  }
  if (files.empty())
    throw config_error(
        "data", "no token file is named", "Set data.train, or data.valid to evaluate");
  for (const std::string& path : files) {
    const TokenFile& file = files_.emplace_back(path);
    const TokenHeader& first = files_.front().header();
    if (file.header().tokenizer != first.tokenizer || file.header().vocab != first.vocab) {
      throw config_error(path,
                         cat("the file has tokens of '",
                             file.header().tokenizer,
                             "' (",
                             file.header().vocab,
                             "), but ",
                             files[0],
                             " of '",
                             first.tokenizer,
                             "' (",
                             first.vocab,
                             ")"),
                         "Prepare all files with one tokenizer");
    }
    num_tokens_ += static_cast<std::int64_t>(file.header().num_tokens);
  }
  num_samples_ = std::max<std::int64_t>(0, num_tokens_ - 1) / sequence;
  if (num_samples_ == 0) {
    throw config_error(
        files.size() == 1 ? files[0] : cat(files[0], " and ", files.size() - 1, " more"),
        cat("a sequence of ",
            sequence,
            " tokens and the one after it is longer than the data, ",
            num_tokens_,
            " tokens"),
        cat("Set batch.sequence to ",
            std::max<std::int64_t>(1, num_tokens_ - 1),
            " or less, or use more data"));
  }
}

void TokenSequences::read(std::int64_t sample, std::span<std::int64_t> tokens) const {
  LOCKSTEP_ASSERT(sample >= 0 && sample < num_samples_ && std::ssize(tokens) == sequence_ + 1);
  auto begin = static_cast<std::uint64_t>(sample * sequence_);
  for (const TokenFile& file : files_) {
    const std::uint64_t size = file.header().num_tokens;
    if (begin < size) {
      const std::size_t count = std::min<std::uint64_t>(tokens.size(), size - begin);
      file.read(begin, tokens.first(count));
      tokens = tokens.subspan(count);
      begin += count;
    }
    begin -= size;
    if (tokens.empty())
      return;
  }
}

}  // namespace lockstep
