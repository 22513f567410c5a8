// SPDX-License-Identifier: Apache-2.0
#include "lockstep/model/model_values.h"

#include <filesystem>
#include <variant>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/model/architectures.h"
#include "lockstep/model/hf_config.h"
#include "lockstep/model/presets.h"

namespace lockstep {
namespace {

template <typename T>
void override_with(T& value, const std::optional<T>& wanted) {
  if (wanted) {
    value = *wanted;
  }
}

/// A size the user gives must be a size; 0 would quietly mean "the default" further down.
void need_positive(std::vector<Finding>& findings,
                   const char* key,
                   const std::optional<std::int64_t>& value) {
  if (value && *value < 1) {
    findings.push_back({.where = cat("model.", key),
                        .what = cat("must be at least 1, is ", *value),
                        .next = "Set a positive number or leave it out"});
  }
}

ModelSpec make_gpt(const std::string& name, GptConfig config, const ModelValues& values) {
  override_with(config.layers, values.layers);
  override_with(config.width, values.width);
  override_with(config.heads, values.heads);
  override_with(config.kv_heads, values.kv_heads);
  override_with(config.ffn_width, values.ffn_width);
  override_with(config.vocab, values.vocab);
  override_with(config.context, values.context);
  override_with(config.dropout, values.dropout);
  override_with(config.tied, values.tied);
  std::vector<Finding> findings = check(config, "model.");
  for (const auto& [key, value] :
       {std::pair{"kv_heads", values.kv_heads}, std::pair{"ffn_width", values.ffn_width}}) {
    if (value && *value == 0) {
      need_positive(findings, key, value);
    }
  }
  throw_findings(Fault::Config, cat("model ", name, " cannot be built"), findings);
  return gpt_spec(name, config);
}

ModelSpec make_mlp(const std::string& name, MlpConfig config, const ModelValues& values) {
  override_with(config.layers, values.layers);
  override_with(config.width, values.width);
  std::vector<Finding> findings = check(config, "model.");
  const auto refuse = [&](const char* key, bool given) {
    if (given) {
      findings.push_back({.where = cat("model.", key),
                          .what = "an MLP has no such value",
                          .next = "Leave it out, or choose a GPT"});
    }
  };
  refuse("heads", values.heads.has_value());
  refuse("kv_heads", values.kv_heads.has_value());
  refuse("ffn_width", values.ffn_width.has_value());
  refuse("vocab", values.vocab.has_value());
  refuse("context", values.context.has_value());
  refuse("dropout", values.dropout.has_value());
  refuse("tied", values.tied.has_value());
  throw_findings(Fault::Config, cat("model ", name, " cannot be built"), findings);
  return mlp_spec(name, config);
}

}  // namespace

ModelSpec make_model(const ModelValues& values) {
  if (values.preset.empty() == values.file.empty()) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = "model"},
                 .problem = values.preset.empty() ? "neither preset nor file is given"
                                                  : "both preset and file are given",
                 .next = "Set one of model.preset and model.file"});
  }
  if (!values.file.empty()) {
    const std::filesystem::path path(values.file);
    const std::string name = path.filename() == "config.json"
                                 ? path.parent_path().filename().string()
                                 : path.filename().string();
    return make_gpt(name.empty() ? values.file : name, read_hf_config(values.file), values);
  }
  const Preset& row = preset(values.preset);
  if (const auto* mlp = std::get_if<MlpConfig>(&row.config)) {
    return make_mlp(values.preset, *mlp, values);
  }
  return make_gpt(values.preset, std::get<GptConfig>(row.config), values);
}

}  // namespace lockstep
