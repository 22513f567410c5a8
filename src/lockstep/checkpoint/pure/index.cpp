// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/index.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/pure/safetensors.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(std::string_view file, std::string problem) {
  throw Error({.fault = Fault::Storage,
               .where = {.subject = std::string(file)},
               .problem = std::move(problem),
               .next = "The checkpoint is damaged: take another one"});
}

IndexEntry parse_entry(const Json& json) {
  IndexEntry entry{.name = json.at("name"), .shape = json.at("shape")};
  const auto dtype = parse_dtype(json.at("dtype").get<std::string>());
  if (!dtype)
    throw Error(
        {.problem = cat("tensor '", entry.name, "' has an element type that is not known")});
  entry.dtype = *dtype;
  num_elements(entry.shape);
  for (const Json& piece : json.at("pieces")) {
    entry.pieces.push_back({.file = piece.at("file"),
                            .key = piece.at("key"),
                            .part = {.offset = piece.at("box_offset"),
                                     .extent = piece.at("box_extent"),
                                     .begin = piece.at("begin"),
                                     .end = piece.at("end")}});
    const Piece& last = entry.pieces.back();
    if (last.file.empty() || contains(last.file, "/")) {
      throw Error({.problem = cat("tensor '",
                                  entry.name,
                                  "' names a file outside the checkpoint: '",
                                  last.file,
                                  "'")});
    }
    num_elements(last.part.extent);
  }
  return entry;
}

}  // namespace

const IndexEntry* Index::find(std::string_view name) const {
  const auto alias = aliases.find(std::string(name));
  const std::string_view target = alias == aliases.end() ? name : std::string_view(alias->second);
  const auto at = std::lower_bound(
      entries.begin(), entries.end(), target, [](const IndexEntry& entry, std::string_view wanted) {
        return entry.name < wanted;
      });
  return at != entries.end() && at->name == target ? &*at : nullptr;
}

std::string to_json(const Index& index) {
  Json entries = Json::array();
  for (const IndexEntry& entry : index.entries) {
    Json pieces = Json::array();
    for (const Piece& piece : entry.pieces) {
      pieces.push_back({{"file", piece.file},
                        {"key", piece.key},
                        {"box_offset", piece.part.offset},
                        {"box_extent", piece.part.extent},
                        {"begin", piece.part.begin},
                        {"end", piece.part.end}});
    }
    entries.push_back({{"name", entry.name},
                       {"dtype", name_of(entry.dtype)},
                       {"shape", entry.shape},
                       {"pieces", pieces}});
  }
  return Json{{"format", "lockstep index 1"}, {"tensors", entries}, {"aliases", index.aliases}}
             .dump(1) +
         "\n";
}

Index parse_index(std::string_view text, std::string_view file) {
  Index index;
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != "lockstep index 1")
      refuse(file, "this is no index that this program can read");
    for (const Json& entry : json.at("tensors"))
      index.entries.push_back(parse_entry(entry));
    index.aliases = json.at("aliases").get<std::map<std::string, std::string>>();
  } catch (const Json::exception& e) {
    refuse(file, cat("the index cannot be read (", first_line(e.what()), ")"));
  } catch (const Error& e) {
    refuse(file, e.facts().problem);
  }
  std::sort(index.entries.begin(), index.entries.end(), [](const auto& a, const auto& b) {
    return a.name < b.name;
  });
  for (std::size_t i = 0; i < index.entries.size(); ++i) {
    const IndexEntry& entry = index.entries[i];
    if (i > 0 && index.entries[i - 1].name == entry.name)
      refuse(file, cat("tensor '", entry.name, "' occurs twice"));
    if (const std::string fault = coverage_fault(entry); !fault.empty())
      refuse(file, cat("tensor '", entry.name, "': ", fault));
  }
  for (const auto& [alias, target] : index.aliases) {
    if (index.find(target) == nullptr)
      refuse(file, cat("'", alias, "' stands for '", target, "', which is not there"));
  }
  return index;
}

std::string coverage_fault(const IndexEntry& entry) {
  std::int64_t covered = 0;
  for (std::size_t i = 0; i < entry.pieces.size(); ++i) {
    const Piece& piece = entry.pieces[i];
    if (const std::string fault = misfit(piece.part, entry.shape); !fault.empty())
      return cat("a piece is ", fault);
    for (std::size_t j = 0; j < i; ++j) {
      if (!common_stretches(entry.pieces[j].part, piece.part).empty()) {
        return cat(
            "the pieces of ", entry.pieces[j].file, " and ", piece.file, " hold the same elements");
      }
    }
    covered += piece.part.size();
  }
  const std::int64_t all = num_elements(entry.shape);
  return covered == all ? "" : cat("the pieces hold ", covered, " of ", all, " elements");
}

std::vector<PieceRead> reads_for(const IndexEntry& entry, const Part& wanted) {
  std::vector<PieceRead> reads;
  for (const Piece& piece : entry.pieces) {
    auto stretches = common_stretches(piece.part, wanted);
    if (!stretches.empty())
      reads.push_back({.piece = &piece, .stretches = std::move(stretches)});
  }
  return reads;
}

}  // namespace lockstep::checkpoint
