// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/config/config.h"

namespace lockstep::schema {

/// Where the value of a key lives in a Config; the alternative is the key's type.
using Field = std::variant<bool*,
                           std::int64_t*,
                           double*,
                           std::string*,
                           std::optional<bool>*,
                           std::optional<std::int64_t>*,
                           std::optional<double>*,
                           std::optional<std::string>*,
                           std::optional<AxisSize>*,
                           std::vector<std::int64_t>*,
                           std::vector<double>*,
                           std::vector<std::string>*>;

/// One key. Parsing, --set, printing, help, documentation and tests walk these rows.
template <typename Object>
struct Row {
  std::string_view section;
  std::string_view key;
  std::function<Field(Object&)> field;
  std::string_view help;
  /// The only strings allowed; "name:N" stands for a number after the colon.
  std::vector<std::string> words;
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

/// Every key but the groups of the optimizer, section by section in the order of the page.
const std::vector<Row<Config>>& rows();

/// The keys of one [[optimizer.group]].
const std::vector<Row<OptimizerGroup>>& group_rows();

/// Names of the sections, in order; names of the keys of one.
std::vector<std::string> sections();
std::vector<std::string> keys_of(std::string_view section);

/// "a whole number", "a list of strings", ...
std::string_view type_name(const Field& field);

/// The value as TOML; none where it is not said.
std::optional<std::string> to_toml(const Field& field);

}  // namespace lockstep::schema
