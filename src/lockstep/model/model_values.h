// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/model/model_spec.h"

namespace lockstep {

/// What a user may say about a model: where it comes from, and what is changed of it. The keys of
/// [model].
struct ModelValues {
  std::string preset;  ///< a row of presets()
  std::string file;    ///< or a Hugging Face config.json, or its folder
  std::optional<std::int64_t> layers;
  std::optional<std::int64_t> width;
  std::optional<std::int64_t> heads;
  std::optional<std::int64_t> kv_heads;
  std::optional<std::int64_t> ffn_width;
  std::optional<std::int64_t> vocab;
  std::optional<std::int64_t> context;
  std::optional<double> dropout;
  std::optional<bool> tied;
};

/// The model of these values. kv_heads and ffn_width follow heads and width unless the source or
/// the user sets them.
/// Throws Config with every value that cannot work; a file that cannot be read
/// is Storage.
ModelSpec make_model(const ModelValues& values);

}  // namespace lockstep
