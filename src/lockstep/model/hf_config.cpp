// SPDX-License-Identifier: Apache-2.0
#include "lockstep/model/hf_config.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

/// Reads keys with defaults and collects what is of the wrong kind.
class Keys {
 public:
  Keys(const nlohmann::json& json, const std::string& file) : json_(json), file_(file) {}

  std::int64_t whole(const char* key, std::int64_t fallback) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) {
      return fallback;
    }
    if (!value->is_number_integer()) {
      wrong(key, "a whole number", *value);
      return fallback;
    }
    return value->get<std::int64_t>();
  }
  double number(const char* key, double fallback) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) {
      return fallback;
    }
    if (!value->is_number()) {
      wrong(key, "a number", *value);
      return fallback;
    }
    return value->get<double>();
  }
  bool truth(const char* key, bool fallback) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) {
      return fallback;
    }
    if (!value->is_boolean()) {
      wrong(key, "true or false", *value);
      return fallback;
    }
    return value->get<bool>();
  }
  std::string text(const char* key, const std::string& fallback) {
    const nlohmann::json* value = find(key);
    if (value == nullptr) {
      return fallback;
    }
    if (!value->is_string()) {
      wrong(key, "a text", *value);
      return fallback;
    }
    return value->get<std::string>();
  }
  void refuse(const char* key, const std::string& what, const std::string& next) {
    findings_.push_back({.where = cat(file_, ", ", key), .what = what, .next = next});
  }
  const std::vector<Finding>& findings() const { return findings_; }

 private:
  const nlohmann::json* find(const char* key) const {
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }
  void wrong(const char* key, const std::string& expected, const nlohmann::json& found) {
    refuse(key, cat("must be ", expected, ", is ", found.dump()), "Correct the value");
  }

  const nlohmann::json& json_;
  const std::string& file_;
  std::vector<Finding> findings_;
};

double read_dropout(Keys& keys) {
  const double rate = keys.number("resid_pdrop", 0.1);
  for (const char* other : {"embd_pdrop", "attn_pdrop"}) {
    const double found = keys.number(other, 0.1);
    if (found != rate) {
      keys.refuse(other,
                  cat("is ", found, " while resid_pdrop is ", rate, ", and this GPT has one rate"),
                  "Make the three equal");
    }
  }
  return rate;
}

void refuse_what_differs(Keys& keys) {
  const std::string activation = keys.text("activation_function", "gelu_new");
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    keys.refuse("activation_function",
                cat("'", activation, "' is not supported"),
                "Use gelu_new or gelu_pytorch_tanh");
  }
  if (!keys.truth("scale_attn_weights", true)) {
    keys.refuse(
        "scale_attn_weights", "attention without scaling is not supported", "Set it to true");
  }
  if (keys.truth("scale_attn_by_inverse_layer_idx", false)) {
    keys.refuse("scale_attn_by_inverse_layer_idx",
                "attention scaled by the layer is not supported",
                "Set it to false");
  }
  if (keys.truth("add_cross_attention", false)) {
    keys.refuse("add_cross_attention", "cross attention is not supported", "Set it to false");
  }
}

}  // namespace

GptConfig parse_hf_config(std::string_view text, const std::string& file) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = file},
                 .problem = "this is not a JSON object",
                 .next = "Give a Hugging Face config.json"});
  }
  Keys keys(json, file);
  const std::string type = keys.text("model_type", "");
  if (type != "gpt2") {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = cat(file, ", model_type")},
                 .problem = type.empty() ? std::string("the key is missing or no text")
                                         : cat("'", type, "' is not supported"),
                 .next = "Use a model of type gpt2"});
  }
  GptConfig config{.layers = keys.whole("n_layer", 12),
                   .width = keys.whole("n_embd", 768),
                   .heads = keys.whole("n_head", 12),
                   .ffn_width = keys.whole("n_inner", 0),
                   .vocab = keys.whole("vocab_size", 50257),
                   .context = keys.whole("n_positions", 1024),
                   .dropout = read_dropout(keys),
                   .tied = keys.truth("tie_word_embeddings", true),
                   .norm_eps = keys.number("layer_norm_epsilon", 1e-5)};
  refuse_what_differs(keys);
  throw_findings(
      Fault::Config, cat(file, " describes a model that cannot be built"), keys.findings());
  return config;
}

GptConfig read_hf_config(const std::string& path) {
  const std::filesystem::path file = std::filesystem::is_directory(path)
                                         ? std::filesystem::path(path) / "config.json"
                                         : std::filesystem::path(path);
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) {
    throw Error({.fault = Fault::Storage,
                 .where = {.subject = file.string()},
                 .problem = "the file cannot be read",
                 .next = "Check model.file"});
  }
  return parse_hf_config(text, file.string());
}

}  // namespace lockstep
