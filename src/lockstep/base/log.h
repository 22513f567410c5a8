// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace lockstep {

enum class LogLevel { Debug, Info, Warning, Error };

/// One line on standard error, whole even when several threads log: "lockstep warning: text".
/// LOCKSTEP_LOG = debug | info | warning | error sets what is shown (warning).
/// Library code logs only through here; it never prints.
void log(LogLevel level, std::string_view text);

}  // namespace lockstep
