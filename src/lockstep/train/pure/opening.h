// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/config/resolve.h"
#include "lockstep/model/model_spec.h"

namespace lockstep::train {

/// What a run says of itself before its first step.
struct Opening {
  const Resolved& resolved;
  const ModelSpec& model;
  std::int64_t sequence = 0;
  std::int64_t train_tokens = 0, train_samples = 0, valid_tokens = 0;
  std::int64_t first_step = 1, last_step = 0;
  double lr = 0;
  std::string out;
  std::string resumed_from;  ///< empty: from the start
};

/// Lines: model, ranks and mesh, global batch with its factors, tokens a step, data, backend, learning rate, run directory.
std::string opening_text(const Opening& opening);

}  // namespace lockstep::train
