// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::sharded {

/// One named thing that ranks must have alike: a parameter's type and shape, or the hash of its
/// values.
struct Entry {
  std::string name;
  std::string value;
};

std::string to_text(std::span<const Entry> entries);
std::vector<Entry> entries_of(std::string_view text);

/// The first entry in which some rank differs from the most common list (from rank 0's where none
/// is more common).
struct Difference {
  std::string name;                ///< of the first entry that differs, or that one side lacks
  int rank = 0;                    ///< the first rank that differs
  int other = 0;                   ///< a rank with the common list
  std::string value, other_value;  ///< "absent" where the side lacks it
  std::size_t count = 0, other_count = 0;
};

/// The same answer on every rank, since every rank holds the same texts.
std::optional<Difference> first_difference(std::span<const std::string> texts_by_rank);

}  // namespace lockstep::sharded
