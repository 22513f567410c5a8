// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/file.h"

namespace lockstep {

/// What a token file says of itself.
struct TokenHeader {
  std::uint32_t token_bytes = 1;  ///< 1, 2 or 4: unsigned, little-endian
  std::uint64_t vocab = 256;
  std::uint64_t num_tokens = 0;
  std::uint64_t checksum = 0;  ///< XXH3 of the tokens
  std::string tokenizer;       ///< "byte"; at most 79 bytes
};

/// A file of tokens, mapped into memory.
///
/// Layout  128 bytes of header, then the tokens. Little-endian:
///         0 "LOCKTOKS" | 8 u32 version 1 | 12 u32 token_bytes | 16 u64 vocab | 24 u64 num_tokens |
///         32 u64 checksum of the tokens | 40 tokenizer name, zero-filled | 120 u64 checksum of
///         bytes 0 to 119.
/// Errors  Storage naming the file, what was expected and what was found: missing, not a token
///         file, another version, damaged header, size that does not fit the header (truncated),
///         and from verify(): damaged tokens, a token beyond the vocabulary.
class TokenFile {
 public:
  static constexpr std::uint64_t kHeaderBytes = 128;

  /// Checks header and size: a few microseconds, whatever the size.
  explicit TokenFile(const std::filesystem::path& path);

  const TokenHeader& header() const { return header_; }
  const std::filesystem::path& path() const { return file_.path(); }

  /// Reads the whole file once: its checksum, and that every token is below vocab.
  void verify() const;

  /// Tokens [begin, begin + out.size()), widened.
  void read(std::uint64_t begin, std::span<std::int64_t> out) const;

 private:
  MappedFile file_;
  TokenHeader header_;
};

/// Writes a token file whose length is not known before; it appears with commit().
class TokenWriter {
 public:
  /// `header` says type, vocabulary and tokenizer; count and checksum are filled in.
  TokenWriter(const std::filesystem::path& path, TokenHeader header, std::uint64_t expected_tokens);
  /// Tokens as they lie in the file: header.token_bytes each.
  void append(std::span<const std::byte> tokens);
  /// All that can fail for want of room: count and checksum are written, the bytes are durable.
  void seal();
  void commit();

 private:
  AtomicFile file_;
  TokenHeader header_;
  Checksum checksum_;
  bool sealed_ = false;
};

/// Token files laid end to end, cut into sequences of T tokens for predicting the next one.
///
/// Shapes  sample i: inputs are tokens [i T, (i + 1) T), targets the same one later, so T + 1
///         tokens are read. size() = (tokens - 1) / T; what follows the last whole sequence is not
///         used.
/// Errors  Config: no files, files of different tokenizers, or a sequence longer than the data,
///         with both numbers.
class TokenSequences {
 public:
  TokenSequences(std::span<const std::string> files, std::int64_t sequence);

  std::int64_t size() const { return num_samples_; }
  std::int64_t sequence() const { return sequence_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  const TokenHeader& header() const { return files_.front().header(); }
  const std::vector<TokenFile>& files() const { return files_; }

  /// The T + 1 tokens of a sample.
  void read(std::int64_t sample, std::span<std::int64_t> tokens) const;

 private:
  std::vector<TokenFile> files_;
  std::int64_t sequence_;
  std::int64_t num_tokens_ = 0;
  std::int64_t num_samples_ = 0;
};

}  // namespace lockstep
