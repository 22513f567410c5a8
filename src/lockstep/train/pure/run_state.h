// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lockstep/data/pure/sampler.h"
#include "lockstep/data/pure/token_file.h"

namespace lockstep::train {

struct Best {
  std::int64_t step = 0;
  double valid_loss = 0;
};

/// Which samples a run learns from; what a sampler's state means depends on it.
struct DataIdentity {
  std::int64_t num_samples = 0;
  std::int64_t sequence = 0;  ///< tokens of a sample
  std::string order;          ///< "shuffled", "sequential"
  std::string tail;           ///< "drop", "repeat", "once"
  std::string checksum;       ///< of the tokens of every file, in order
};

DataIdentity identity_of(const TokenSequences& data, const SamplerOptions& options);

/// Throws Config listing all that differs, with both values; `file` is where `saved` was read.
void check_same_data(const DataIdentity& saved, const DataIdentity& now, std::string_view file);

/// What a checkpoint holds beside tensors. The learning rate is a function of the step, and dropout and order of seed, step and
/// sample, so that nothing else has a state.
struct RunState {
  std::int64_t step = 0;  ///< optimizer steps done
  std::int64_t total_tokens = 0;
  std::int64_t seed = 0;
  SamplerState sampler;
  DataIdentity data;
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
