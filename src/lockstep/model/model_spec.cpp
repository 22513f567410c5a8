// SPDX-License-Identifier: Apache-2.0
#include "lockstep/model/model_spec.h"

#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

Init Init::xavier_normal(std::int64_t fan_in, std::int64_t fan_out) {
  return normal(std::sqrt(2.0 / static_cast<double>(fan_in + fan_out)));
}

std::int64_t ParameterSpec::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    count *= size;
  }
  return count;
}

const GptConfig& ModelSpec::gpt() const {
  if (!is_gpt()) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = name},
                 .problem = "this model is no GPT",
                 .next = "Choose a GPT preset"});
  }
  return std::get<GptConfig>(config);
}

const MlpConfig& ModelSpec::mlp() const {
  if (is_gpt()) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = name},
                 .problem = "this model is no MLP",
                 .next = "Choose the preset mlp"});
  }
  return std::get<MlpConfig>(config);
}

const ParameterSpec& ModelSpec::parameter(std::string_view wanted) const {
  std::vector<std::string> known;
  for (const AliasSpec& alias : aliases) {
    if (alias.name == wanted) {
      return parameter(alias.target);
    }
    known.push_back(alias.name);
  }
  for (const ParameterSpec& candidate : parameters) {
    if (candidate.name == wanted) {
      return candidate;
    }
    known.push_back(candidate.name);
  }
  throw Error({.fault = Fault::Usage,
               .where = {.subject = name},
               .problem = cat("there is no parameter '", wanted, "'", did_you_mean(wanted, known)),
               .next = "Use a name of the model's parameter list"});
}

std::int64_t ModelSpec::parameter_elements() const {
  std::int64_t count = 0;
  for (const ParameterSpec& parameter : parameters) {
    count += parameter.elements();
  }
  return count;
}

}  // namespace lockstep
