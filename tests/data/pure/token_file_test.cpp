// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/pure/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

#include "support/complaint.h"
#include "support/process.h"

namespace lockstep {
namespace {

using test::read_file;
using test::TemporaryFolder;
using test::write_file;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename Token>
std::string write_tokens(const std::filesystem::path& path,
                         const std::vector<Token>& tokens,
                         std::uint64_t vocab,
                         const std::string& tokenizer = "byte") {
  TokenWriter writer(
      path, {.token_bytes = sizeof(Token), .vocab = vocab, .tokenizer = tokenizer}, tokens.size());
  const auto bytes = std::as_bytes(std::span(tokens));
  const std::size_t half = tokens.size() / 2 * sizeof(Token);
  writer.append(bytes.first(half));
  writer.append(bytes.subspan(half));
  writer.commit();
  return path.string();
}

std::vector<std::uint8_t> count_up(std::size_t size) {
  std::vector<std::uint8_t> tokens;
  for (std::size_t i = 0; i < size; ++i)
    tokens.push_back(static_cast<std::uint8_t>(i));
  return tokens;
}

std::vector<std::int64_t> all_tokens(const TokenFile& file) {
  std::vector<std::int64_t> tokens(file.header().num_tokens);
  file.read(0, tokens);
  return tokens;
}

TEST(TokenFile, ReadsBackTokensOfEverySize) {
  const TemporaryFolder folder;
  const TokenFile bytes(write_tokens<std::uint8_t>(folder / "1", {0, 127, 128, 255}, 256));
  EXPECT_THAT(all_tokens(bytes), ElementsAre(0, 127, 128, 255));
  const TokenFile words(
      write_tokens<std::uint16_t>(folder / "2", {0, 255, 256, 50256}, 50257, "hf:a.json"));
  EXPECT_THAT(all_tokens(words), ElementsAre(0, 255, 256, 50256));
  EXPECT_EQ(words.header().tokenizer, "hf:a.json");
  EXPECT_EQ(words.header().vocab, 50257U);
  const TokenFile wide(write_tokens<std::uint32_t>(folder / "4", {1, 65536, 150000}, 151000));
  EXPECT_THAT(all_tokens(wide), ElementsAre(1, 65536, 150000));
  std::vector<std::int64_t> part(2);
  wide.read(1, part);
  EXPECT_THAT(part, ElementsAre(65536, 150000));
  for (const TokenFile* file : {&bytes, &words, &wide})
    EXPECT_NO_THROW(file->verify());
}

TEST(TokenFile, AMissingFileAndAForeignOneAreNamed) {
  const TemporaryFolder folder;
  const std::string path = (folder / "a.tokens").string();
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { TokenFile file(path); }),
              HasSubstr(cat(path, ": there is no such file")));
  for (const char* content :
       {"", "short", "In the beginning God created the heaven and the earth."}) {
    write_file(path, content);
    EXPECT_THAT(test::complaint(Fault::Storage, [&] { TokenFile file(path); }),
                HasSubstr(cat(path, ": this is not a token file")));
  }
}

TEST(TokenFile, EveryCutIsFoundWithBothSizes) {
  const TemporaryFolder folder;
  const std::string path = write_tokens(folder / "a.tokens", count_up(100), 256);
  const std::string whole = read_file(path);
  for (const std::size_t size : {8U, 127U, 128U, 129U, 227U}) {
    write_file(path, whole.substr(0, size));
    const std::string text = test::complaint(Fault::Storage, [&] { TokenFile file(path); });
    EXPECT_THAT(text, HasSubstr("the file is cut off"));
    EXPECT_THAT(text,
                HasSubstr(size < 128 ? "expected 128 bytes" : "expected 228 bytes for 100 tokens"));
    EXPECT_THAT(text, HasSubstr(cat("found ", size, " bytes")));
  }
  write_file(path, whole + "x");
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { TokenFile file(path); }),
              HasSubstr("longer than its header says"));
}

TEST(TokenFile, EveryChangedByteIsFound) {
  const TemporaryFolder folder;
  const std::string path = write_tokens(folder / "a.tokens", count_up(100), 256);
  const std::string whole = read_file(path);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] ^= 0x10;
    write_file(path, changed);
    const std::string text = test::complaint(Fault::Storage, [&] { TokenFile(path).verify(); });
    EXPECT_THAT(text, HasSubstr(path)) << "byte " << at;
    EXPECT_THAT(text, HasSubstr("expected")) << "byte " << at;
  }
}

TEST(TokenFile, ATokenBeyondTheVocabularyIsFound) {
  const TemporaryFolder folder;
  const std::string path = write_tokens<std::uint16_t>(folder / "a", {5, 9, 10, 3}, 10);
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { TokenFile(path).verify(); }),
              HasSubstr("token 2 is not in the vocabulary; expected less than 10, found 10"));
}

TEST(TokenSequences, SampleIIsTheTokensFromITimesT) {
  const TemporaryFolder folder;
  const std::vector<std::string> files = {write_tokens(folder / "a", count_up(23), 256)};
  const TokenSequences data(files, 5);
  EXPECT_EQ(data.size(), 4);
  std::vector<std::int64_t> tokens(6);
  data.read(0, tokens);
  EXPECT_THAT(tokens, ElementsAre(0, 1, 2, 3, 4, 5));
  data.read(3, tokens);
  EXPECT_THAT(tokens, ElementsAre(15, 16, 17, 18, 19, 20));
}

TEST(TokenSequences, FilesAreLaidEndToEnd) {
  const TemporaryFolder folder;
  const auto tokens = count_up(23);
  const auto part = [&](int begin, int end) {
    return std::vector(tokens.begin() + begin, tokens.begin() + end);
  };
  const std::vector<std::string> files = {write_tokens(folder / "a", part(0, 7), 256),
                                          write_tokens(folder / "b", part(7, 9), 256),
                                          write_tokens(folder / "c", part(9, 23), 256)};
  const TokenSequences data(files, 5);
  EXPECT_EQ(data.size(), 4);
  for (std::int64_t sample = 0; sample < 4; ++sample) {
    std::vector<std::int64_t> got(6);
    data.read(sample, got);
    for (std::int64_t i = 0; i < 6; ++i)
      EXPECT_EQ(got[static_cast<std::size_t>(i)], sample * 5 + i);
  }
}

TEST(TokenSequences, ASequenceLongerThanTheDataNamesBothNumbers) {
  const TemporaryFolder folder;
  const std::vector<std::string> files = {write_tokens(folder / "a", count_up(96), 256)};
  EXPECT_EQ(TokenSequences(files, 95).size(), 1);
  const std::string text = test::complaint(Fault::Config, [&] { TokenSequences data(files, 96); });
  EXPECT_THAT(text, HasSubstr("a sequence of 96 tokens"));
  EXPECT_THAT(text, HasSubstr("the data, 96 tokens"));
  EXPECT_THAT(text, HasSubstr("Set batch.sequence to 95 or less"));
}

TEST(TokenSequences, FilesOfDifferentTokenizersDoNotMix) {
  const TemporaryFolder folder;
  const std::vector<std::string> files = {write_tokens(folder / "a", count_up(9), 256),
                                          write_tokens(folder / "b", count_up(9), 300, "hf:x")};
  EXPECT_THAT(test::complaint(Fault::Config, [&] { TokenSequences data(files, 4); }),
              HasSubstr("tokens of 'hf:x' (300)"));
  EXPECT_THAT(test::complaint(Fault::Config, [] { TokenSequences data({}, 4); }),
              HasSubstr("no token file is named"));
}

}  // namespace
}  // namespace lockstep
