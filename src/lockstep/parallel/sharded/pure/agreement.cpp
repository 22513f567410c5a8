// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/pure/agreement.h"

#include <algorithm>

#include "lockstep/base/text.h"

namespace lockstep::sharded {

namespace {

constexpr char kBetween = '\x1f';

std::size_t most_common(std::span<const std::string> texts) {
  std::size_t best = 0;
  for (std::size_t rank = 1; rank < texts.size(); ++rank) {
    if (std::ranges::count(texts, texts[rank]) > std::ranges::count(texts, texts[best]))
      best = rank;
  }
  return best;
}

bool has(const std::vector<Entry>& entries, const std::string& name) {
  return std::ranges::any_of(entries, [&](const Entry& entry) { return entry.name == name; });
}

}  // namespace

std::string to_text(std::span<const Entry> entries) {
  std::string text;
  for (const Entry& entry : entries) {
    text += entry.name;
    text += kBetween;
    text += entry.value;
    text += '\n';
  }
  return text;
}

std::vector<Entry> entries_of(std::string_view text) {
  std::vector<Entry> entries;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const std::size_t middle = line.find(kBetween);
    entries.push_back({std::string(line.substr(0, middle)), std::string(line.substr(middle + 1))});
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return entries;
}

std::optional<Difference> first_difference(std::span<const std::string> texts_by_rank) {
  const std::size_t common = most_common(texts_by_rank);
  const auto odd = std::ranges::find_if(
      texts_by_rank, [&](const std::string& text) { return text != texts_by_rank[common]; });
  if (odd == texts_by_rank.end())
    return std::nullopt;
  const std::vector<Entry> mine = entries_of(*odd);
  const std::vector<Entry> theirs = entries_of(texts_by_rank[common]);
  Difference difference{.rank = static_cast<int>(odd - texts_by_rank.begin()),
                        .other = static_cast<int>(common),
                        .value = "absent",
                        .other_value = "absent",
                        .count = mine.size(),
                        .other_count = theirs.size()};
  for (std::size_t at = 0; at < std::max(mine.size(), theirs.size()); ++at) {
    const Entry* left = at < mine.size() ? &mine[at] : nullptr;
    const Entry* right = at < theirs.size() ? &theirs[at] : nullptr;
    if (left && right && left->name == right->name && left->value == right->value)
      continue;
    // Another name at the same place: the side whose name the other lacks altogether is the one to
    // tell.
    if (left && right && left->name != right->name) {
      if (has(mine, right->name) && !has(theirs, left->name)) {
        right = nullptr;
      } else {
        left = nullptr;
      }
    }
    difference.name = left ? left->name : right->name;
    if (left)
      difference.value = left->value;
    if (right)
      difference.other_value = right->value;
    break;
  }
  return difference;
}

}  // namespace lockstep::sharded
