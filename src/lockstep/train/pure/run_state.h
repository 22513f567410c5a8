// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/data/pure/sampler.h"

namespace lockstep::train {

struct Best {
  std::int64_t step = 0;
  double valid_loss = 0;
};

/// What a checkpoint holds beside tensors. The learning rate is a function of the step, and dropout and order of seed, step and
/// sample, so that nothing else has a state.
struct RunState {
  std::int64_t step = 0;  ///< optimizer steps done
  std::int64_t total_tokens = 0;
  std::int64_t seed = 0;
  SamplerState sampler;
  std::map<std::string, std::int64_t> optimizer_steps;  ///< of each parameter that was ever updated
  std::optional<double> valid_loss;                     ///< at this step
  std::optional<Best> best;
  std::string tokenizer;
  std::string config;  ///< the effective configuration, TOML
};

std::string to_json(const RunState& state);
/// Throws Storage naming `file`.
RunState parse_run_state(std::string_view json, std::string_view file);

}  // namespace lockstep::train
