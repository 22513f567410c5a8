// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lockstep {

/// A GPT: learned positions, pre-norm blocks, fused q|k|v, GELU (tanh) of one hidden layer.
/// Zero in kv_heads means as many as heads, zero in ffn_width means 4 * width; a ModelSpec holds
/// them filled in.
struct GptConfig {
  std::int64_t layers = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t ffn_width = 0;
  std::int64_t vocab = 0;
  std::int64_t context = 0;
  double dropout = 0.0;  ///< of embeddings, attention weights and both residual branches
  bool tied = false;     ///< the head uses the token embedding
  double norm_eps = 1e-5;

  std::int64_t head_width() const { return width / heads; }
};

enum class MlpTask { Classification, Regression };

/// `layers` linear layers: inputs -> width -> ... -> outputs, GELU (tanh) between them.
struct MlpConfig {
  std::int64_t layers = 0;
  std::int64_t inputs = 0;
  std::int64_t width = 0;
  std::int64_t outputs = 0;
  MlpTask task = MlpTask::Classification;
};

/// How a parameter starts. A function of the logical parameter only, so no split of it changes a
/// value.
struct Init {
  enum class Kind { Zeros, Ones, Normal, Uniform };
  Kind kind = Kind::Zeros;
  double scale =
      0.0;  ///< Normal: standard deviation. Uniform: bound, values lie in [-scale, scale).

  static Init zeros() { return {}; }
  static Init ones() { return {.kind = Kind::Ones}; }
  static Init normal(double std) { return {.kind = Kind::Normal, .scale = std}; }
  static Init uniform(double bound) { return {.kind = Kind::Uniform, .scale = bound}; }
  /// std = sqrt(2 / (fan_in + fan_out)) of the logical matrix.
  /// Source: Glorot and Bengio 2010,
  /// equation 12, normal form.
  static Init xavier_normal(std::int64_t fan_in, std::int64_t fan_out);
};

/// Consecutive rows (dim 0) of a fused parameter that belong together, as q, k and v.
struct Segment {
  std::string name;
  std::int64_t rows = 0;
};

struct ParameterSpec {
  std::string name;  ///< as in named_parameters(), "layers.2.mlp.fc1.weight"
  std::vector<std::int64_t> shape;
  Init init;
  std::vector<Segment> segments;  ///< empty: one piece

  std::int64_t elements() const;
};

/// A second name of one parameter: "head.weight" of a tied model.
struct AliasSpec {
  std::string name;
  std::string target;
};

/// A model as data: what it holds, under which names, in which order; never how it is spread.
/// Made by make_model (model_values.h), or by gpt_spec and mlp_spec.
struct ModelSpec {
  std::string name;
  std::variant<GptConfig, MlpConfig> config;
  std::vector<ParameterSpec> parameters;  ///< in the order of named_parameters(); a tied one once
  std::vector<AliasSpec> aliases;
  std::vector<std::string> units;  ///< names of the regions in forward order; parameter
                                   ///< "layers.0.x" is of unit "layers.0"

  bool is_gpt() const { return std::holds_alternative<GptConfig>(config); }
  const GptConfig& gpt() const;  ///< throws Config for another architecture
  const MlpConfig& mlp() const;
  const ParameterSpec& parameter(
      std::string_view name) const;  ///< by name or alias; throws Usage with the nearest names
  std::int64_t parameter_elements() const;
};

}  // namespace lockstep
