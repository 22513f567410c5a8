// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/redirect.h"

#include <optional>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {

namespace {

std::optional<Streams> streams_of(std::string_view text) {
  const auto value = parse_int(trim(text));
  if (!value || *value < 0 || *value > 3)
    return std::nullopt;
  return static_cast<Streams>(*value);
}

}  // namespace

Streams StreamChoice::of(int local_rank) const {
  const auto found = by_rank.find(local_rank);
  return found != by_rank.end() ? found->second : all;
}

StreamChoice parse_streams(std::string_view text, std::string_view flag) {
  StreamChoice choice;
  const auto refuse = [&](const std::string& item) -> void {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = std::string(flag)},
                 .problem = cat("'", item, "' is no choice of streams"),
                 .found = cat("'", text, "'"),
                 .next = "Give 0 (none), 1 (standard output), 2 (standard error), 3 (both), or a "
                         "list such as 0:3,1:2"});
  };
  if (const auto one = streams_of(text)) {
    choice.all = *one;
    return choice;
  }
  for (const std::string& item : split(text, ',')) {
    const std::size_t colon = item.find(':');
    if (colon == std::string::npos)
      refuse(item);
    const auto rank = parse_int(trim(item.substr(0, colon)));
    const auto streams = streams_of(item.substr(colon + 1));
    if (!rank || *rank < 0 || !streams)
      refuse(item);
    choice.by_rank[static_cast<int>(*rank)] = *streams;
  }
  return choice;
}

}  // namespace lockstep::launch
