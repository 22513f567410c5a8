// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/share.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/pure/layout.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

/// One part and the ranks that hold it.
struct Shared {
  std::int64_t bytes = 0;
  std::string name;
  Part part;
  std::vector<std::pair<std::size_t, std::size_t>> holders;  ///< rank, position in its list
};

std::string describe(const Holding& holding) {
  std::string sizes;
  for (const std::int64_t size : holding.shape)
    sizes += cat(sizes.empty() ? "" : ", ", size);
  return cat(name_of(holding.dtype), " [", sizes, "]");
}

void check_same_tensor(const Holding& a, std::size_t rank_a, const Holding& b, std::size_t rank_b) {
  if (a.dtype == b.dtype && a.shape == b.shape)
    return;
  throw Error({.fault = Fault::Mismatch,
               .where = {.operation = "checkpoint", .subject = a.name},
               .problem = "ranks disagree on a tensor that is to be saved",
               .expected = cat(describe(a), " (rank ", rank_a, ")"),
               .found = cat(describe(b), " (rank ", rank_b, ")"),
               .next = "Build the same model on every rank"});
}

std::vector<Shared> shared_parts(const std::vector<std::vector<Holding>>& of_ranks) {
  std::map<std::pair<std::string, Part>, Shared> parts;
  std::map<std::string, std::pair<const Holding*, std::size_t>> first;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    for (std::size_t i = 0; i < of_ranks[rank].size(); ++i) {
      const Holding& holding = of_ranks[rank][i];
      const auto [seen, is_new] = first.try_emplace(holding.name, &holding, rank);
      if (!is_new)
        check_same_tensor(*seen->second.first, seen->second.second, holding, rank);
      Shared& shared = parts[{holding.name, holding.part}];
      shared.name = holding.name;
      shared.part = holding.part;
      shared.bytes = holding.part.size() * bytes_of(holding.dtype);
      shared.holders.emplace_back(rank, i);
    }
  }
  std::vector<Shared> list;
  for (auto& [key, shared] : parts)
    list.push_back(std::move(shared));
  return list;
}

const std::string kWrapper = "module.";

/// Where a parameter's name starts: after "optimizer.<kind>." and "master.".
std::size_t start_of_parameter(const std::string& name) {
  if (name.starts_with("master."))
    return 7;
  if (!name.starts_with("optimizer."))
    return 0;
  const std::size_t dot = name.find('.', 10);
  return dot == std::string::npos ? 0 : dot + 1;
}

/// The name with `count` prefixes more (or, below zero, fewer); none where it has not that many.
std::string with_prefixes(std::string name, int count) {
  const std::size_t at = start_of_parameter(name);
  for (; count > 0; --count)
    name.insert(at, kWrapper);
  for (; count < 0; ++count) {
    if (name.compare(at, kWrapper.size(), kWrapper) != 0)
      return "";
    name.erase(at, kWrapper.size());
  }
  return name;
}

}  // namespace

std::vector<std::vector<std::size_t>> share_out(const std::vector<std::vector<Holding>>& of_ranks) {
  std::vector<Shared> parts = shared_parts(of_ranks);
  std::stable_sort(parts.begin(), parts.end(), [](const Shared& a, const Shared& b) {
    const bool one_a =
        a.holders.size() == 1;  // parts with one holder leave no choice: they are dealt first
    const bool one_b = b.holders.size() == 1;
    return one_a != one_b ? one_a : a.bytes > b.bytes;
  });
  std::vector<std::vector<std::size_t>> writes(of_ranks.size());
  std::vector<std::int64_t> load(of_ranks.size(), 0);
  for (const Shared& part : parts) {
    const auto writer = std::min_element(
        part.holders.begin(), part.holders.end(), [&](const auto& a, const auto& b) {
          return load[a.first] < load[b.first];
        });
    writes[writer->first].push_back(writer->second);
    load[writer->first] += part.bytes;
  }
  for (auto& list : writes)
    std::sort(list.begin(), list.end());
  return writes;
}

std::vector<std::string> keys_of(const std::vector<Holding>& holdings,
                                 const std::vector<std::size_t>& writes) {
  std::map<std::string, int> uses;
  std::vector<std::string> keys;
  for (const std::size_t i : writes) {
    const int use = uses[holdings[i].name]++;
    keys.push_back(use == 0 ? holdings[i].name : cat(holdings[i].name, "#", use));
  }
  return keys;
}

Index index_of(const std::vector<std::vector<Holding>>& of_ranks,
               const std::vector<std::vector<std::size_t>>& writes) {
  std::map<std::string, IndexEntry> entries;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const auto keys = keys_of(of_ranks[rank], writes[rank]);
    for (std::size_t k = 0; k < keys.size(); ++k) {
      const Holding& holding = of_ranks[rank][writes[rank][k]];
      IndexEntry& entry = entries[holding.name];
      entry.name = holding.name;
      entry.dtype = holding.dtype;
      entry.shape = holding.shape;
      entry.pieces.push_back(
          {.file = rank_file_name(static_cast<int>(rank)), .key = keys[k], .part = holding.part});
    }
  }
  Index index;
  for (auto& [name, entry] : entries) {
    if (const std::string fault = coverage_fault(entry); !fault.empty()) {
      throw Error({.where = {.operation = "checkpoint", .subject = name},
                   .problem = cat("the ranks' parts do not make the whole tensor: ", fault),
                   .next = "Please report it with the command that led here"});
    }
    index.entries.push_back(std::move(entry));
  }
  return index;
}

std::string to_text(const std::vector<Holding>& holdings) {
  Json list = Json::array();
  for (const Holding& holding : holdings) {
    list.push_back({holding.name,
                    name_of(holding.dtype),
                    holding.shape,
                    holding.part.offset,
                    holding.part.extent,
                    holding.part.begin,
                    holding.part.end});
  }
  return list.dump();
}

std::vector<Holding> parse_holdings(std::string_view text) {
  std::vector<Holding> holdings;
  for (const Json& row : Json::parse(text)) {
    holdings.push_back(
        {.name = row.at(0),
         .dtype = parse_dtype(row.at(1).get<std::string>()).value(),
         .shape = row.at(2),
         .part = {.offset = row.at(3), .extent = row.at(4), .begin = row.at(5), .end = row.at(6)}});
  }
  return holdings;
}

NameMatch match_names(const std::vector<std::string>& wanted,
                      const std::vector<std::string>& available) {
  const std::set<std::string> names(available.begin(), available.end());
  int best = 0;
  std::ptrdiff_t most = -1;
  for (const int shift : {0, 1, -1, 2, -2}) {
    const auto matches = std::count_if(wanted.begin(), wanted.end(), [&](const std::string& name) {
      return names.contains(with_prefixes(name, shift));
    });
    if (matches > most) {
      most = matches;
      best = shift;
    }
  }
  NameMatch match;
  std::set<std::string> used;
  for (const std::string& name : wanted) {
    const std::string theirs = with_prefixes(name, best);
    const bool there = names.contains(theirs);
    match.found.push_back(there ? theirs : "");
    if (there) {
      used.insert(theirs);
    } else {
      match.missing.push_back(name);
    }
  }
  for (const std::string& name : names) {
    if (!used.contains(name))
      match.unexpected.push_back(name);
  }
  return match;
}

}  // namespace lockstep::checkpoint
