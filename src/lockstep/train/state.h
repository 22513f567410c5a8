// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/strategy/assemble.h"
#include "lockstep/train/pure/run_state.h"

namespace lockstep::train {

/// Model, buffers and optimizer as a checkpoint holds them. The tensors are live views.
checkpoint::Snapshot snapshot_of(strategy::Assembly& assembly, RunState state);

/// Fills model and optimizer from a checkpoint, whatever number of ranks wrote it, and returns the rest of the state.
/// Throws Storage for damage, Config where it is of another model.
RunState restore(strategy::Assembly& assembly, const checkpoint::Checkpoint& from);

/// The model's weights alone.
void restore_model(nn::Model& model, const checkpoint::Checkpoint& from);

}  // namespace lockstep::train
