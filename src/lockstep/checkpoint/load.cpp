// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/detail/tensor_bytes.h"
#include "lockstep/checkpoint/pure/block_file.h"
#include "lockstep/checkpoint/pure/safetensors.h"
#include "lockstep/checkpoint/pure/share.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

/// One safetensors file, opened, its header read and checked.
struct OpenFile {
  OpenFile(const fs::path& path, const FileRecord& record, std::int64_t block_bytes)
      : reader(path, record, block_bytes) {
    std::string start(8, '\0');
    reader.read(0,
                std::span(start.data(),
                          std::min<std::size_t>(8, static_cast<std::size_t>(reader.size_bytes()))));
    start.resize(
        static_cast<std::size_t>(header_length(start, reader.size_bytes(), path.string())));
    reader.read(0, start);
    header = parse_header(start, reader.size_bytes(), path.string());
  }
  BlockReader reader;
  SafetensorsHeader header;
};

std::string sizes_text(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (const std::int64_t size : sizes)
    text += cat(text.empty() ? "" : ", ", size);
  return cat("[", text, "]");
}

bool is_of_model(const std::string& name) {
  return !name.starts_with("optimizer.") && !name.starts_with("master.");
}

/// Shapes and types of what was found, all faults at once.
void check_fit(const Index& index,
               const std::vector<StateTensor>& targets,
               const NameMatch& match,
               const fs::path& folder) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (match.found[i].empty())
      continue;
    const IndexEntry& entry = *index.find(match.found[i]);
    const DType type = dtype_of(targets[i].data, targets[i].name);
    if (entry.shape == targets[i].shape && entry.dtype == type)
      continue;
    findings.push_back({.where = targets[i].name,
                        .what = cat("the checkpoint has ",
                                    name_of(entry.dtype),
                                    " ",
                                    sizes_text(entry.shape),
                                    ", the model ",
                                    name_of(type),
                                    " ",
                                    sizes_text(targets[i].shape))});
  }
  throw_findings(
      Fault::Config,
      cat(folder.string(), " is of another model; use the configuration it was written with:"),
      findings);
}

void check_names(const NameMatch& match,
                 std::size_t num_loaded,
                 Names names,
                 const fs::path& folder) {
  const bool complete = match.missing.empty() && match.unexpected.empty();
  if (complete || (names == Names::Lenient && num_loaded > 0))
    return;
  throw Error({.fault = Fault::Config,
               .where = {.subject = folder.string()},
               .problem = cat("the names of checkpoint and model differ: ",
                              num_loaded,
                              " match; missing in the checkpoint: ",
                              match.missing.empty() ? "none" : cut_list(match.missing, 20),
                              "; not in the model: ",
                              match.unexpected.empty() ? "none" : cut_list(match.unexpected, 20)),
               .next = "Use the model and optimizer that the checkpoint was written with"});
}

void read_stretches(OpenFile& file,
                    const PieceRead& read,
                    const StateTensor& target,
                    const std::string& path) {
  const SafetensorsTensor* row = file.header.find(read.piece->key);
  const auto element_bytes = static_cast<std::int64_t>(target.data.element_size());
  if (row == nullptr ||
      row->end_bytes - row->begin_bytes != read.piece->part.size() * element_bytes) {
    throw Error(
        {.fault = Fault::Storage,
         .where = {.subject = path},
         .problem = cat("does not hold the tensor '", read.piece->key, "' as the index says"),
         .next = "The checkpoint is damaged: take another one"});
  }
  const auto bytes = bytes_of(target.data);
  for (const Stretch& stretch : read.stretches) {
    const std::int64_t from =
        file.header.data_start_bytes + row->begin_bytes + stretch.source * element_bytes;
    file.reader.read(from,
                     bytes.subspan(static_cast<std::size_t>(stretch.target * element_bytes),
                                   static_cast<std::size_t>(stretch.count * element_bytes)));
  }
}

}  // namespace

Checkpoint::Checkpoint(fs::path folder) : folder_(std::move(folder)) {
  const fs::path manifest = folder_ / "manifest.json";
  manifest_ = parse_manifest(read_text(manifest), manifest.string());
  const fs::path index = folder_ / "index.json";
  BlockReader reader(index, manifest_.file("index.json", folder_.string()), manifest_.block_bytes);
  std::string text(static_cast<std::size_t>(reader.size_bytes()), '\0');
  reader.read(0, text);
  index_ = parse_index(text, index.string());
  for (const FileRecord& file : manifest_.files)
    BlockReader(folder_ / file.name, file, manifest_.block_bytes);
}

LoadReport Checkpoint::load(std::vector<StateTensor>& targets, Scope scope, Names names) const {
  std::vector<std::string> wanted;
  for (const StateTensor& target : targets)
    wanted.push_back(target.name);
  std::vector<std::string> available;
  for (const IndexEntry& entry : index_.entries) {
    if (scope == Scope::Everything || is_of_model(entry.name))
      available.push_back(entry.name);
  }
  for (const auto& [alias, name] : index_.aliases) {
    if (std::find(wanted.begin(), wanted.end(), alias) != wanted.end())
      available.push_back(alias);
  }
  NameMatch match = match_names(wanted, available);
  const std::size_t num_loaded = wanted.size() - match.missing.size();
  check_names(match, num_loaded, names, folder_);
  check_fit(index_, targets, match, folder_);

  std::map<std::string, std::unique_ptr<OpenFile>> files;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (match.found[i].empty())
      continue;
    StateTensor& target = targets[i];
    const bool in_place = target.data.is_contiguous() && target.data.device().is_cpu();
    StateTensor host = target;
    if (!in_place)
      host.data = target.data.detach().cpu().contiguous();
    for (const PieceRead& read : reads_for(*index_.find(match.found[i]), target.part)) {
      const fs::path path = folder_ / read.piece->file;
      auto& file = files[read.piece->file];
      if (!file) {
        file = std::make_unique<OpenFile>(
            path, manifest_.file(read.piece->file, folder_.string()), manifest_.block_bytes);
      }
      read_stretches(*file, read, host, path.string());
    }
    if (!in_place)
      target.data.detach().copy_(host.data);
  }
  return {.num_loaded = static_cast<std::int64_t>(num_loaded),
          .missing = std::move(match.missing),
          .unexpected = std::move(match.unexpected)};
}

void Checkpoint::verify() const {
  for (const FileRecord& file : manifest_.files)
    BlockReader(folder_ / file.name, file, manifest_.block_bytes).verify_all();
}

}  // namespace lockstep::checkpoint
