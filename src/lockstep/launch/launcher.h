// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/launch/options.h"

namespace lockstep::launch {

/// Runs one job: binds the store's port, starts the ranks, relays their output, judges how they end, restarts the group where it
/// may, and leaves no process behind. Returns the job's exit status: 0, the first failing rank's own, 128 + a signal's number.
///
/// Contract The calling process has one thread and is the launcher: signals are blocked, children are waited for.
/// Errors   What is found before the first rank starts is thrown (Usage, Config, Environment, Storage). A failure of the ranks
///          is a status; its report goes to standard error once, and to `failure_file`.
int launch(const Options& options);

}  // namespace lockstep::launch
