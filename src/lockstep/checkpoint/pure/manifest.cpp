// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/manifest.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/pure/block_file.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;
constexpr std::string_view kFormat = "lockstep checkpoint 1";

Json json_of(const FileRecord& record) {
  return {{"name", record.name}, {"size_bytes", record.size_bytes}, {"blocks", record.blocks}};
}

FileRecord record_of(const Json& json) {
  return {
      .name = json.at("name"), .size_bytes = json.at("size_bytes"), .blocks = json.at("blocks")};
}

[[noreturn]] void refuse(std::string_view file, std::string problem) {
  throw Error(
      {.fault = Fault::Storage,
       .where = {.subject = std::string(file)},
       .problem = std::move(problem),
       .next =
           "Take another checkpoint of the run: --resume DIR with the folder of an earlier step"});
}

}  // namespace

const FileRecord& Manifest::file(std::string_view name, std::string_view folder) const {
  for (const FileRecord& record : files) {
    if (record.name == name)
      return record;
  }
  refuse(folder, cat("the manifest does not list ", name));
}

std::string to_line(const FileRecord& record) { return json_of(record).dump(); }

FileRecord parse_line(std::string_view line) { return record_of(Json::parse(line)); }

std::string to_json(const Manifest& manifest) {
  Json files = Json::array();
  for (const FileRecord& record : manifest.files)
    files.push_back(json_of(record));
  const Json content = {{"format", kFormat},
                        {"step", manifest.step},
                        {"num_ranks", manifest.num_ranks},
                        {"block_bytes", manifest.block_bytes},
                        {"files", files},
                        {"state", Json::parse(manifest.state)}};
  return Json{{"checksum", checksum_text(content.dump())}, {"content", content}}.dump(1) + "\n";
}

Manifest parse_manifest(std::string_view text, std::string_view file) {
  Manifest manifest;
  try {
    const Json json = Json::parse(text);
    const Json& content = json.at("content");
    if (content.at("format") != kFormat)
      refuse(file, "a checkpoint of a format that this program cannot read");
    if (json.at("checksum") != checksum_text(content.dump()))
      refuse(file, "the manifest's own checksum is wrong");
    manifest.step = content.at("step");
    manifest.num_ranks = content.at("num_ranks");
    manifest.block_bytes = content.at("block_bytes");
    for (const Json& record : content.at("files"))
      manifest.files.push_back(record_of(record));
    manifest.state = content.at("state").dump();
  } catch (const Json::exception& e) {
    refuse(file, cat("the manifest cannot be read (", first_line(e.what()), ")"));
  }
  if (manifest.block_bytes <= 0)
    refuse(file, "the manifest gives no block size");
  return manifest;
}

}  // namespace lockstep::checkpoint
