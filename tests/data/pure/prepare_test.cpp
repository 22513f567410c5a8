// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/pure/prepare.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/pure/token_file.h"
#include "lockstep/data/pure/tokenizer.h"

#include "support/complaint.h"
#include "support/process.h"

namespace lockstep {
namespace {

using test::TemporaryFolder;
using test::write_file;
using testing::HasSubstr;

std::string text_of(const std::filesystem::path& path) {
  const TokenFile file(path);
  file.verify();
  std::vector<std::int64_t> tokens(file.header().num_tokens);
  file.read(0, tokens);
  return make_tokenizer(file.header().tokenizer)->decode(tokens);
}

TEST(Tokenizer, EveryByteSurvives) {
  std::string text;
  for (int i = 0; i < 256; ++i)
    text += static_cast<char>(i);
  const auto tokenizer = make_tokenizer("byte");
  EXPECT_EQ(tokenizer->vocab(), 256);
  EXPECT_EQ(tokenizer->encode(text)[200], 200);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(Tokenizer, WhatIsNotBuiltIsRefusedByName) {
  EXPECT_THAT(test::complaint(Fault::Config, [] { make_tokenizer("sentencepiece:a.model"); }),
              HasSubstr("'sentencepiece:' are not in this version. Use --tokenizer byte"));
  EXPECT_THAT(test::complaint(Fault::Config, [] { make_tokenizer("hf:tokenizer.json"); }),
              HasSubstr("not in this version"));
  EXPECT_THAT(test::complaint(Fault::Config, [] { make_tokenizer("bite"); }),
              HasSubstr("did you mean 'byte'?"));
}

TEST(Prepare, CutsTheTailOffForValidation) {
  const TemporaryFolder folder;
  std::string a, b;
  for (int i = 0; i < 300'000; ++i)
    a += cat(i, '\n');
  for (int i = 0; i < 20'000; ++i)
    b += cat("line ", i, '\n');
  write_file(folder / "a.txt", a);
  write_file(folder / "b.txt", b);
  std::uint64_t last = 0;
  const Prepared prepared =
      prepare_tokens({.files = {(folder / "a.txt").string(), (folder / "b.txt").string()},
                      .out = folder / "new" / "data",
                      .valid_fraction = 0.25,
                      .progress = [&last](std::uint64_t done, std::uint64_t) { last = done; }});
  const std::string whole = a + b;
  EXPECT_EQ(last, whole.size());
  EXPECT_EQ(prepared.valid_tokens,
            static_cast<std::uint64_t>(std::llround(0.25 * static_cast<double>(whole.size()))));
  EXPECT_EQ(prepared.train_tokens + prepared.valid_tokens, whole.size());
  EXPECT_EQ(text_of(prepared.train_file), whole.substr(0, prepared.train_tokens));
  EXPECT_EQ(text_of(prepared.valid_file), whole.substr(prepared.train_tokens));
}

TEST(Prepare, GivesTheUnigramEntropyOfTheValidationPart) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", std::string(12, 'z') + "aabc");
  const Prepared prepared = prepare_tokens(
      {.files = {(folder / "a.txt").string()}, .out = folder / "d", .valid_fraction = 0.25});
  EXPECT_NEAR(prepared.valid_unigram_entropy, 1.5 * std::log(2.0), 1e-12);
  EXPECT_EQ(unigram_entropy({}), 0.0);
}

TEST(Prepare, WithoutAFractionThereIsNoValidationFile) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "abc");
  const Prepared prepared = prepare_tokens(
      {.files = {(folder / "a.txt").string()}, .out = folder / "d", .valid_fraction = 0});
  EXPECT_EQ(prepared.train_tokens, 3U);
  EXPECT_FALSE(std::filesystem::exists(folder / "d" / "valid.tokens"));
}

TEST(Prepare, NeverLeavesAValidationFileOfAnotherText) {
  const TemporaryFolder folder;
  write_file(folder / "old.txt", std::string(100, 'o'));
  write_file(folder / "new.txt", std::string(100, 'n'));
  const auto out = folder / "d";
  const auto prepare = [&](const char* text, double fraction) {
    prepare_tokens({.files = {(folder / text).string()}, .out = out, .valid_fraction = fraction});
  };
  prepare("old.txt", 0.1);
  prepare("new.txt", 0);
  EXPECT_EQ(text_of(out / "train.tokens"), std::string(100, 'n'));
  EXPECT_FALSE(std::filesystem::exists(out / "valid.tokens"));

  // A failure at the training file's place: a folder has its name.
  prepare("old.txt", 0.1);
  std::filesystem::remove(out / "train.tokens");
  std::filesystem::create_directory(out / "train.tokens");
  write_file(out / "train.tokens" / "file", "in the way");
  test::complaint(Fault::Storage, [&] { prepare("new.txt", 0.1); });
  EXPECT_FALSE(std::filesystem::exists(out / "valid.tokens"));

  // And at the validation file's: the old training file stays.
  std::filesystem::remove_all(out);
  prepare("old.txt", 0);
  std::filesystem::create_directory(out / "valid.tokens");
  write_file(out / "valid.tokens" / "file", "in the way");
  EXPECT_THAT(test::complaint(Fault::Storage, [&] { prepare("new.txt", 0.1); }),
              HasSubstr("valid.tokens"));
  EXPECT_EQ(text_of(out / "train.tokens"), std::string(100, 'o'));
  for (const auto& entry : std::filesystem::directory_iterator(out))
    EXPECT_NE(entry.path().extension(), ".partial");
}

TEST(Prepare, BadInputLeavesNothing) {
  const TemporaryFolder folder;
  const std::string good = (folder / "a.txt").string(), empty = (folder / "e.txt").string(),
                    missing = (folder / "m.txt").string();
  write_file(good, "abc");
  write_file(empty, "");
  const auto out = folder / "d";
  EXPECT_THAT(test::complaint(Fault::Storage,
                              [&] { prepare_tokens({.files = {good, missing}, .out = out}); }),
              HasSubstr(cat(missing, ": there is no such file")));
  EXPECT_THAT(test::complaint(Fault::Storage,
                              [&] { prepare_tokens({.files = {good, empty}, .out = out}); }),
              HasSubstr(cat(empty, ": the file is empty")));
  EXPECT_THAT(
      test::complaint(Fault::Usage,
                      [&] { prepare_tokens({.files = {good}, .out = out, .valid_fraction = 1}); }),
      HasSubstr("--valid-fraction"));
  EXPECT_THAT(test::complaint(Fault::Config, [&] { prepare_tokens({.out = out}); }),
              HasSubstr("no text file"));
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_THAT(
      test::complaint(Fault::Storage, [&] { prepare_tokens({.files = {good}, .out = good}); }),
      HasSubstr("the folder cannot be made"));
}

}  // namespace
}  // namespace lockstep
