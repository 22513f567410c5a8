// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

#include "support/process.h"

namespace lockstep::test {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Json = nlohmann::json;

inline constexpr const char* kConfig = R"([model]
preset = "tiny"
layers = 1
width = 16
heads = 2
context = 16

[batch]
global = 12

[optimizer]
lr = 1e-2
clip = 1.0

[lr_schedule]
name = "linear"
warmup = 3

[train]
steps = 8
log_every = 4
)";

/// Token files of a text and a configuration, made once for all tests.
class Train : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = new TemporaryFolder();
    std::string text;
    for (int i = 0; i < 700; ++i)
      text += cat("and the ", i % 37, " sons of the ", i % 11, " kings went up to the hills\n");
    write_file(*shared_ / "text", text);
    const auto prepared = test::run({.words = {program("lockstep"),
                                               "data",
                                               "prepare",
                                               (*shared_ / "text").string(),
                                               "--out",
                                               shared_->path().string()}});
    ASSERT_EQ(prepared.status, 0) << prepared.err;
    write_file(*shared_ / "run.toml",
               cat(kConfig,
                   "[data]\ntrain = [\"",
                   (*shared_ / "train.tokens").string(),
                   "\"]\nvalid = [\"",
                   (*shared_ / "valid.tokens").string(),
                   "\"]\n"));
  }
  static void TearDownTestSuite() { delete shared_; }

  Command command(int ranks, const std::string& out, const std::vector<std::string>& more = {}) {
    Command command{.words = {program("lockstep"),
                              "train",
                              (*shared_ / "run.toml").string(),
                              "-n",
                              cat(ranks),
                              "--out",
                              (folder_ / out).string()},
                    .timeout = std::chrono::seconds(60)};
    command.words.insert(command.words.end(), more.begin(), more.end());
    return command;
  }
  Finished train(int ranks, const std::string& out, const std::vector<std::string>& more = {}) {
    return test::run(command(ranks, out, more));
  }

  std::vector<Json> lines_of(const std::string& out, const char* file) {
    std::vector<Json> lines;
    for (const std::string& line : split(trim(read_file(folder_ / out / file)), '\n'))
      lines.push_back(Json::parse(line));
    return lines;
  }
  std::vector<Json> metrics(const std::string& out) { return lines_of(out, "metrics.jsonl"); }
  std::vector<double> column(const std::string& out, const char* name) {
    std::vector<double> values;
    for (const Json& line : metrics(out))
      values.push_back(line.at(name).get<double>());
    return values;
  }

  /// What a checkpoint writes on; empty where it does not load.
  static std::string generated(const fs::path& folder) {
    const Finished text = test::run({.words = {program("lockstep"),
                                               "generate",
                                               folder.string(),
                                               "--prompt",
                                               "and ",
                                               "--max-new-tokens",
                                               "8",
                                               "--json"}});
    return text.status == 0 ? Json::parse(text.out).at("tokens").dump() : "";
  }

  static inline TemporaryFolder* shared_ = nullptr;
  TemporaryFolder folder_;
};

}  // namespace lockstep::test
