// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/pure/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace {

static_assert(std::endian::native == std::endian::little, "token files are mapped as they are");

constexpr std::string_view kMagic = "LOCKTOKS";
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kNameBytes = 80;

struct RawHeader {
  std::array<char, 8> magic{};
  std::uint32_t version = kVersion;
  std::uint32_t token_bytes = 0;
  std::uint64_t vocab = 0;
  std::uint64_t num_tokens = 0;
  std::uint64_t checksum = 0;
  std::array<char, kNameBytes> tokenizer{};
  std::uint64_t header_checksum = 0;
};
static_assert(sizeof(RawHeader) == TokenFile::kHeaderBytes);

std::uint64_t checksum_of(const RawHeader& raw) {
  return checksum(std::as_bytes(std::span(&raw, 1)).first(offsetof(RawHeader, header_checksum)));
}

RawHeader to_raw(const TokenHeader& header) {
  LOCKSTEP_ASSERT(header.tokenizer.size() < kNameBytes);
  RawHeader raw{.token_bytes = header.token_bytes,
                .vocab = header.vocab,
                .num_tokens = header.num_tokens,
                .checksum = header.checksum};
  std::copy(kMagic.begin(), kMagic.end(), raw.magic.begin());
  std::copy(header.tokenizer.begin(), header.tokenizer.end(), raw.tokenizer.begin());
  raw.header_checksum = checksum_of(raw);
  return raw;
}

Error damaged(const std::filesystem::path& path,
              std::string problem,
              std::string expected,
              std::string found) {
  return Error({.fault = Fault::Storage,
                .where = {.subject = path.string()},
                .problem = std::move(problem),
                .expected = std::move(expected),
                .found = std::move(found),
                .next = "Make the file again with 'lockstep data prepare'"});
}

TokenHeader read_header(const MappedFile& file) {
  const auto bytes = file.bytes();
  const bool marked =
      bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
  if (!marked)
    throw damaged(file.path(),
                  "this is not a token file",
                  cat("'", kMagic, "' at its start"),
                  cat("other content, ", bytes.size(), " bytes"));
  if (bytes.size() < TokenFile::kHeaderBytes) {
    throw damaged(file.path(),
                  "the file is cut off in its header",
                  cat(TokenFile::kHeaderBytes, " bytes"),
                  cat(bytes.size(), " bytes"));
  }
  RawHeader raw;
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.version != kVersion)
    throw damaged(file.path(), "the file has another version", cat(kVersion), cat(raw.version));
  if (raw.header_checksum != checksum_of(raw)) {
    throw damaged(file.path(),
                  "the header is damaged",
                  cat("checksum ", hex(raw.header_checksum)),
                  hex(checksum_of(raw)));
  }
  TokenHeader header{.token_bytes = raw.token_bytes,
                     .vocab = raw.vocab,
                     .num_tokens = raw.num_tokens,
                     .checksum = raw.checksum};
  header.tokenizer.assign(raw.tokenizer.data(), ::strnlen(raw.tokenizer.data(), kNameBytes));
  if (raw.token_bytes != 1 && raw.token_bytes != 2 && raw.token_bytes != 4) {
    throw damaged(file.path(),
                  "tokens have a size that is not known",
                  "1, 2 or 4 bytes",
                  cat(raw.token_bytes));
  }
  const std::uint64_t whole = TokenFile::kHeaderBytes + raw.num_tokens * raw.token_bytes;
  if (bytes.size() != whole) {
    throw damaged(
        file.path(),
        bytes.size() < whole ? "the file is cut off" : "the file is longer than its header says",
        cat(whole, " bytes for ", raw.num_tokens, " tokens"),
        cat(bytes.size(), " bytes"));
  }
  return header;
}

template <typename Token>
void widen(const std::byte* tokens, std::span<std::int64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Token token{};
    std::memcpy(&token, tokens + i * sizeof token, sizeof token);
    out[i] = static_cast<std::int64_t>(token);
  }
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path)
    : file_(path), header_(read_header(file_)) {}

void TokenFile::verify() const {
  const std::uint64_t found = checksum(file_.bytes().subspan(kHeaderBytes));
  if (found != header_.checksum)
    throw damaged(
        path(), "the tokens are damaged", cat("checksum ", hex(header_.checksum)), hex(found));
  if (header_.token_bytes < 4 && header_.vocab >= std::uint64_t{1} << (8 * header_.token_bytes))
    return;
  std::array<std::int64_t, 4096> tokens{};
  for (std::uint64_t begin = 0; begin < header_.num_tokens; begin += tokens.size()) {
    const auto part =
        std::span(tokens).first(std::min<std::uint64_t>(tokens.size(), header_.num_tokens - begin));
    read(begin, part);
    const auto largest = std::max_element(part.begin(), part.end());
    if (static_cast<std::uint64_t>(*largest) < header_.vocab)
      continue;
    const auto at = begin + static_cast<std::uint64_t>(largest - part.begin());
    throw damaged(path(),
                  cat("token ", at, " is not in the vocabulary"),
                  cat("less than ", header_.vocab),
                  cat(*largest));
  }
}

void TokenFile::read(std::uint64_t begin, std::span<std::int64_t> out) const {
  LOCKSTEP_ASSERT(begin + out.size() <= header_.num_tokens);
  const std::byte* tokens = file_.bytes().data() + kHeaderBytes + begin * header_.token_bytes;
  switch (header_.token_bytes) {
    case 1: widen<std::uint8_t>(tokens, out); break;
    case 2: widen<std::uint16_t>(tokens, out); break;
    default: widen<std::uint32_t>(tokens, out); break;
  }
}

TokenWriter::TokenWriter(const std::filesystem::path& path,
                         TokenHeader header,
                         std::uint64_t expected_tokens)
    : file_(path, TokenFile::kHeaderBytes + expected_tokens * header.token_bytes),
      header_(std::move(header)) {
  const RawHeader raw = to_raw(header_);
  file_.append(std::as_bytes(std::span(&raw, 1)));
}

void TokenWriter::append(std::span<const std::byte> tokens) {
  LOCKSTEP_ASSERT(tokens.size() % header_.token_bytes == 0);
  file_.append(tokens);
  checksum_.add(tokens);
  header_.num_tokens += tokens.size() / header_.token_bytes;
}

void TokenWriter::seal() {
  if (sealed_)
    return;
  header_.checksum = checksum_.value();
  const RawHeader raw = to_raw(header_);
  file_.overwrite(0, std::as_bytes(std::span(&raw, 1)));
  file_.sync();
  sealed_ = true;
}

void TokenWriter::commit() {
  seal();
  file_.commit();
}

}  // namespace lockstep
