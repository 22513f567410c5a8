// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"
#include "lockstep/cli/common/command.h"
#include "lockstep/cli/front/commands.h"

#include "support/process.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

struct Result {
  int status;
  std::string out, err;
};

Result lockstep(std::vector<std::string> words) {
  words.insert(words.begin(), "lockstep");
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status =
      cli::run_program({.name = "lockstep", .description = "", .commands = cli::front_commands()},
                       static_cast<int>(argv.size()),
                       argv.data());
  Result result{status, "", ""};
  result.out = testing::internal::GetCapturedStdout();
  result.err = testing::internal::GetCapturedStderr();
  return result;
}

TEST(DataPrepare, WritesBothFilesAndTellsWhatIsInThem) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "a.txt",
                   std::string(90, 'a') + std::string(5, 'b') + std::string(5, 'c'));
  const std::string out = (folder / "data").string();
  const Result text = lockstep({"data", "prepare", (folder / "a.txt").string(), "--out", out});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr(cat(out, "/train.tokens, 90 tokens")));
  EXPECT_THAT(text.out,
              HasSubstr(cat(out, "/valid.tokens, 10 tokens, unigram entropy 0.6931 nats")));
  EXPECT_EQ(std::filesystem::file_size(folder / "data" / "train.tokens"), 128U + 90U);

  const Result json = lockstep({"data",
                                "prepare",
                                (folder / "a.txt").string(),
                                "--tokenizer",
                                "byte",
                                "--out",
                                out,
                                "--valid_fraction",
                                "0.05",
                                "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  const auto document = nlohmann::json::parse(json.out);
  EXPECT_EQ(document["train_tokens"], 95);
  EXPECT_EQ(document["valid_tokens"], 5);
  EXPECT_EQ(document["vocab"], 256);
  EXPECT_EQ(document["valid_unigram_entropy_nats"], 0.0);
}

TEST(DataPrepare, FaultsHaveTheirExitStatusAndNameTheThing) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "a.txt", "abc");
  const std::string good = (folder / "a.txt").string(), missing = (folder / "m.txt").string(),
                    out = (folder / "d").string();
  EXPECT_EQ(lockstep({"data", "prepare", missing, "--out", out}).status, 7);
  EXPECT_THAT(lockstep({"data", "prepare", missing, "--out", out}).err,
              HasSubstr(cat(missing, ": there is no such file")));
  EXPECT_EQ(lockstep({"data", "prepare", good, "--out", out, "--tokenizer", "hf:t.json"}).status,
            3);
  EXPECT_EQ(lockstep({"data", "prepare", good, "--out", out, "--valid-fraction", "2"}).status, 2);
  EXPECT_EQ(lockstep({"data", "prepare", "--out", out}).status, 2);
  EXPECT_EQ(lockstep({"data"}).status, 2);
  EXPECT_THAT(lockstep({"data", "prepar", good}).err,
              HasSubstr("there is no 'data prepar'; did you mean 'prepare'? Use one of"));
  EXPECT_THAT(lockstep({"data", "prepare", good, "--tokeniser", "byte"}).err,
              HasSubstr("did you mean '--tokenizer'?"));
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_THAT(lockstep({"data", "prepare", "--help"}).out, HasSubstr("--valid-fraction"));
}

}  // namespace
}  // namespace lockstep
