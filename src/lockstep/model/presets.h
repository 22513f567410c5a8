// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "lockstep/model/model_spec.h"

namespace lockstep {

/// A row of the table of models that have a name. Adding one is a row in presets.cpp.
struct Preset {
  std::string_view name;
  std::string_view help;
  std::variant<GptConfig, MlpConfig> config;
};

std::span<const Preset> presets();

/// Throws Config that lists the names, the nearest first asked.
const Preset& preset(std::string_view name);

}  // namespace lockstep
