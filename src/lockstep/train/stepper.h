// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "lockstep/comm/pure/recorder.h"
#include "lockstep/comm/world.h"
#include "lockstep/data/loader.h"
#include "lockstep/optim/pure/lr_schedule.h"
#include "lockstep/strategy/assemble.h"
#include "lockstep/train/pure/metrics.h"
#include "lockstep/train/pure/trace.h"

namespace lockstep::train {

/// What is the same in every step.
struct StepParts {
  const World& world;
  strategy::Assembly& assembly;
  DataLoader& loader;
  optim::LrSchedule schedule;
  std::uint64_t seed = 0;
  Trace& trace;
};

/// This rank's wish for what follows the step; agreed over all ranks.
enum class Wish { GoOn, StopAfterStep };

struct StepOutcome {
  StepMetrics metrics;  ///< total_tokens and skipped are the caller's
  SamplerState after;   ///< of the data, once the step is done
  Wish agreed = Wish::GoOn;
};

/// One optimizer step: micro batches forward and backward (gradients are reduced in the last one), the exchange of the step's
/// figures, the update.
///
/// Contract  Collective. The exchange is one all_reduce of 3 + 3n numbers: loss sum, tokens, wishes to stop, and a slot a rank
///           for a loss that is not finite, bytes sent and peak memory. Traffic counts from the call to its end: evaluation and
///           saves between steps are no part of it, the exchange is.
/// Errors    Numeric, on every rank alike and before any parameter changes: the loss of some rank is not finite (the rank is
///           named), or the norm of the gradient is not.
class Stepper {
 public:
  explicit Stepper(StepParts parts);
  /// None at the end of the data, on every rank alike.
  std::optional<StepOutcome> run(std::int64_t step, Wish mine);

 private:
  struct Local;
  std::optional<Local> forward_backward(std::int64_t step);
  StepOutcome exchange(std::int64_t step, const Local& local, const CommTotals& before, Wish mine);

  StepParts parts_;
};

/// Mean loss over every sample of `data`, each counted once, as a sum over a count over all ranks; `micro` samples at once.
/// Collective; no gradients.
double evaluate(const World& world,
                strategy::Assembly& assembly,
                std::shared_ptr<const TokenSequences> data,
                std::int64_t micro);

}  // namespace lockstep::train
