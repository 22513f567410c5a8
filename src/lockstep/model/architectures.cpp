// SPDX-License-Identifier: Apache-2.0
#include "lockstep/model/architectures.h"

#include <cmath>
#include <utility>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

std::string divisors(std::int64_t number) {
  std::vector<std::string> all;
  for (std::int64_t candidate = 1; candidate <= number; ++candidate) {
    if (number % candidate == 0) {
      all.push_back(cat(candidate));
    }
  }
  return cut_list(all, 16);
}

void need_positive(std::vector<Finding>& findings, const std::string& key, std::int64_t value) {
  if (value < 1) {
    findings.push_back({.where = key,
                        .what = cat("must be at least 1, is ", value),
                        .next = "Set a positive number"});
  }
}

/// Collects parameters under a common prefix.
class Names {
 public:
  Names(std::vector<ParameterSpec>& out, std::string prefix)
      : out_(out), prefix_(std::move(prefix)) {}

  void add(const std::string& name,
           std::vector<std::int64_t> shape,
           Init init,
           std::vector<Segment> segments = {}) {
    out_.push_back({.name = prefix_ + name,
                    .shape = std::move(shape),
                    .init = init,
                    .segments = std::move(segments)});
  }
  void linear(const std::string& name,
              std::int64_t rows,
              std::int64_t columns,
              Init init,
              const std::vector<Segment>& segments = {}) {
    add(name + ".weight", {rows, columns}, init, segments);
    add(name + ".bias", {rows}, Init::zeros(), segments);
  }
  void norm(const std::string& name, std::int64_t width) {
    add(name + ".weight", {width}, Init::ones());
    add(name + ".bias", {width}, Init::zeros());
  }

 private:
  std::vector<ParameterSpec>& out_;
  std::string prefix_;
};

void add_block(Names names, const GptConfig& config) {
  constexpr double kStd = 0.02;
  const double residual_std = kStd / std::sqrt(2.0 * static_cast<double>(config.layers));
  const std::int64_t width = config.width;
  const std::int64_t kv_width = config.kv_heads * config.head_width();
  names.norm("norm1", width);
  names.linear("attention.qkv",
               width + 2 * kv_width,
               width,
               Init::normal(kStd),
               {{"q", width}, {"k", kv_width}, {"v", kv_width}});
  names.linear("attention.out", width, width, Init::normal(residual_std));
  names.norm("norm2", width);
  names.linear("mlp.fc1", config.ffn_width, width, Init::normal(kStd));
  names.linear("mlp.fc2", width, config.ffn_width, Init::normal(residual_std));
}

}  // namespace

std::vector<Finding> check(const GptConfig& config, const std::string& where) {
  std::vector<Finding> findings;
  need_positive(findings, where + "layers", config.layers);
  need_positive(findings, where + "width", config.width);
  need_positive(findings, where + "heads", config.heads);
  need_positive(findings, where + "vocab", config.vocab);
  need_positive(findings, where + "context", config.context);
  if (config.kv_heads < 0) {
    need_positive(findings, where + "kv_heads", config.kv_heads);
  }
  if (config.ffn_width < 0) {
    need_positive(findings, where + "ffn_width", config.ffn_width);
  }
  if (config.width > 0 && config.heads > 0 && config.width % config.heads != 0) {
    findings.push_back(
        {.where = where + "heads",
         .what = cat("width ", config.width, " does not divide into ", config.heads, " heads"),
         .next = cat("Use one of ", divisors(config.width), " heads, or another width")});
  }
  if (config.heads > 0 && config.kv_heads > 0 && config.heads % config.kv_heads != 0) {
    findings.push_back(
        {.where = where + "kv_heads",
         .what =
             cat(config.heads, " heads cannot share ", config.kv_heads, " key/value heads evenly"),
         .next = cat("Use one of ", divisors(config.heads))});
  }
  if (!(config.dropout >= 0.0 && config.dropout < 1.0)) {
    findings.push_back({.where = where + "dropout",
                        .what = cat("must be in [0, 1), is ", config.dropout),
                        .next = "Use 0 to switch it off"});
  }
  return findings;
}

std::vector<Finding> check(const MlpConfig& config, const std::string& where) {
  std::vector<Finding> findings;
  need_positive(findings, where + "layers", config.layers);
  need_positive(findings, where + "inputs", config.inputs);
  need_positive(findings, where + "width", config.width);
  need_positive(findings, where + "outputs", config.outputs);
  return findings;
}

ModelSpec gpt_spec(std::string name, GptConfig config) {
  throw_findings(Fault::Config, cat("model ", name, " cannot be built"), check(config, ""));
  if (config.kv_heads == 0) {
    config.kv_heads = config.heads;
  }
  if (config.ffn_width == 0) {
    config.ffn_width = 4 * config.width;
  }
  ModelSpec spec{.name = std::move(name), .config = config};
  Names top(spec.parameters, "");
  top.add("embedding.token.weight", {config.vocab, config.width}, Init::normal(0.02));
  top.add("embedding.position.weight", {config.context, config.width}, Init::normal(0.02));
  spec.units.push_back("embedding");
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    spec.units.push_back(cat("layers.", layer));
    add_block(Names(spec.parameters, spec.units.back() + "."), config);
  }
  spec.units.push_back("head");
  if (config.tied) {
    spec.aliases.push_back({.name = "head.weight", .target = "embedding.token.weight"});
  } else {
    top.add("head.weight", {config.vocab, config.width}, Init::normal(0.02));
  }
  top.norm("head.norm", config.width);
  return spec;
}

ModelSpec mlp_spec(std::string name, const MlpConfig& config) {
  throw_findings(Fault::Config, cat("model ", name, " cannot be built"), check(config, ""));
  ModelSpec spec{.name = std::move(name), .config = config};
  Names top(spec.parameters, "");
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::int64_t in = layer == 0 ? config.inputs : config.width;
    const std::int64_t out = layer + 1 == config.layers ? config.outputs : config.width;
    const Init init = Init::uniform(1.0 / std::sqrt(static_cast<double>(in)));
    spec.units.push_back(cat("layers.", layer));
    top.add(spec.units.back() + ".weight", {out, in}, init);
    top.add(spec.units.back() + ".bias", {out}, init);
  }
  return spec;
}

}  // namespace lockstep
