// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/env.h"

#include <cstdlib>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

std::optional<std::string> env(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0')
    return std::nullopt;
  return std::string(value);
}

std::optional<std::int64_t> env_int(const std::string& name) {
  const auto value = env(name);
  if (!value)
    return std::nullopt;
  const auto number = parse_int(trim(*value));
  if (!number) {
    throw Error({.fault = Fault::Environment,
                 .where = {.subject = name},
                 .problem = "the variable is not a whole number",
                 .found = cat("'", *value, "'"),
                 .next = cat("Set ", name, " to a number or unset it")});
  }
  return number;
}

}  // namespace lockstep
