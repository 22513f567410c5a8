// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

/// The variable's value; none where it is unset or empty.
std::optional<std::string> env(const std::string& name);

/// The variable as a whole number; none where it is unset. Throws Environment naming the variable and its text otherwise.
std::optional<std::int64_t> env_int(const std::string& name);

}  // namespace lockstep
