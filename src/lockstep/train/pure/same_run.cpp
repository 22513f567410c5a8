// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/same_run.h"

#include <algorithm>
#include <optional>
#include <span>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/config/schema.h"

namespace lockstep::train {
namespace {

std::string value_in(const RunValues& values, const std::string& name) {
  const auto found = std::ranges::find(values, name, &RunValues::value_type::first);
  return found == values.end() ? "nothing" : found->second;
}

/// The first name, in the order of `a` and then of `b`, whose values differ.
std::optional<std::string> first_difference(const RunValues& a, const RunValues& b) {
  for (const RunValues* values : {&a, &b}) {
    for (const auto& [name, value] : *values) {
      if (value_in(a, name) != value_in(b, name))
        return name;
    }
  }
  return std::nullopt;
}

}  // namespace

RunValues values_of(const Config& resolved) {
  Config copy = resolved;  // a Field points to what may be written
  RunValues values;
  for (const auto& row : schema::rows()) {
    if (const auto value = schema::to_toml(row.field(copy)))
      values.emplace_back(cat(row.section, ".", row.key), *value);
  }
  for (std::size_t at = 0; at < copy.optimizer.groups.size(); ++at) {
    for (const auto& row : schema::group_rows()) {
      if (const auto value = schema::to_toml(row.field(copy.optimizer.groups[at])))
        values.emplace_back(cat("optimizer.group[", at, "].", row.key), *value);
    }
  }
  return values;
}

void check_same_run(const RunValues& mine, int rank, const GatherText& gather) {
  const std::string text = nlohmann::json(mine).dump();
  const std::string digest = hex(checksum(std::as_bytes(std::span(text))));
  const std::vector<std::string> digests = gather(digest, "digest of the configuration");
  if (std::ranges::all_of(digests, [&](const std::string& other) { return other == digests[0]; }))
    return;
  const std::vector<std::string> texts = gather(text, "configuration");
  const auto first = nlohmann::json::parse(texts[0]).get<RunValues>();
  for (std::size_t other = 1; other < texts.size(); ++other) {
    const auto values = nlohmann::json::parse(texts[other]).get<RunValues>();
    const auto name = first_difference(first, values);
    if (!name)
      continue;
    throw Error(
        {.fault = Fault::Mismatch,
         .where = {.rank = rank, .subject = *name},
         .problem = "ranks were started with different values",
         .expected = cat(value_in(first, *name), " (rank 0)"),
         .found = cat(value_in(values, *name), " (rank ", other, ")"),
         .next = cat("Give rank ", other, " the same configuration and options as rank 0")});
  }
}

}  // namespace lockstep::train
