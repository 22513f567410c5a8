// SPDX-License-Identifier: Apache-2.0
#include "lockstep/model/hf_config.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/model/model_values.h"

#include "support/complaint.h"
#include "support/process.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::string& json) {
  return test::complaint(Fault::Config, [&] { parse_hf_config(json, "m/config.json"); });
}

TEST(HfConfig, ReadsWhatGpt2Has) {
  const GptConfig config = parse_hf_config(
      R"({"model_type": "gpt2", "n_layer": 3, "n_head": 5, "n_embd": 40, "vocab_size": 77,
      "n_positions": 64, "n_inner": 90, "resid_pdrop": 0.2, "embd_pdrop": 0.2, "attn_pdrop": 0.2, "tie_word_embeddings": false,
      "layer_norm_epsilon": 1e-6, "activation_function": "gelu_new"})",
      "config.json");
  EXPECT_EQ(config.layers, 3);
  EXPECT_EQ(config.heads, 5);
  EXPECT_EQ(config.width, 40);
  EXPECT_EQ(config.vocab, 77);
  EXPECT_EQ(config.context, 64);
  EXPECT_EQ(config.ffn_width, 90);
  EXPECT_EQ(config.dropout, 0.2);
  EXPECT_FALSE(config.tied);
  EXPECT_EQ(config.norm_eps, 1e-6);
}

TEST(HfConfig, AbsentKeysHaveTheDefaultsOfTheFormat) {
  const GptConfig config =
      parse_hf_config(R"({"model_type": "gpt2", "n_inner": null})", "config.json");
  EXPECT_EQ(config.layers, 12);
  EXPECT_EQ(config.vocab, 50257);
  EXPECT_EQ(config.dropout, 0.1);
  EXPECT_TRUE(config.tied);
  EXPECT_EQ(config.ffn_width, 0);  // follows the width
}

TEST(HfConfig, AnotherArchitectureIsRefusedWithThoseThatWork) {
  EXPECT_THAT(error_of(R"({"model_type": "mamba"})"),
              AllOf(HasSubstr("m/config.json"), HasSubstr("'mamba'"), HasSubstr("gpt2")));
  EXPECT_THAT(error_of(R"({"n_layer": 2})"), HasSubstr("model_type"));
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_of("{\"model_type\": "), HasSubstr("not a JSON object"));
}

TEST(HfConfig, TellsEveryValueThatCannotBeUsed) {
  EXPECT_THAT(
      error_of(
          R"({"model_type": "gpt2", "n_layer": "two", "n_embd": 4.5, "activation_function": "relu", "attn_pdrop": 0.3,
      "scale_attn_weights": false, "tie_word_embeddings": 1})"),
      AllOf(HasSubstr("n_layer"),
            HasSubstr("\"two\""),
            HasSubstr("n_embd"),
            HasSubstr("'relu'"),
            HasSubstr("attn_pdrop"),
            HasSubstr("scale_attn_weights"),
            HasSubstr("tie_word_embeddings")));
}

TEST(HfConfig, IsReadFromAFileOrItsFolderAndCanBeChanged) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = std::filesystem::path(folder.path()) / "config.json";
  std::ofstream(file)
      << R"({"model_type": "gpt2", "n_layer": 2, "n_head": 4, "n_embd": 32, "vocab_size": 50, "n_positions": 16})";
  EXPECT_EQ(make_model({.file = file.string()}).gpt().layers, 2);
  const ModelSpec changed =
      make_model({.file = std::string(folder.path()), .width = 64, .dropout = 0.0});
  EXPECT_EQ(changed.gpt().ffn_width, 256);
  EXPECT_EQ(changed.gpt().dropout, 0.0);
  std::filesystem::remove(file);
  try {
    make_model({.file = file.string()});
    ADD_FAILURE() << "a missing file was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Storage);
    EXPECT_THAT(error.what(), HasSubstr("config.json"));
  }
}

}  // namespace
}  // namespace lockstep
