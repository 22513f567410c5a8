// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <iterator>
#include <utility>

#include <nlohmann/json.hpp>

#include <ATen/core/Tensor.h>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/detail/tensor_bytes.h"
#include "lockstep/checkpoint/pure/block_file.h"
#include "lockstep/checkpoint/pure/safetensors.h"
#include "lockstep/checkpoint/pure/share.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kBlockBytes = 4 << 20;

/// Runs `work` on this rank and tells all ranks how it went: the results in rank order, or one
/// rank's error on all of them.
std::vector<std::string> agree(const Group& group,
                               const std::string& subject,
                               const std::function<std::string()>& work) {
  Json mine;
  std::exception_ptr own;
  try {
    mine["result"] = work();
  } catch (const Error& e) {
    own = std::current_exception();
    mine = {{"fault", e.exit_status()}, {"error", e.what()}};
  } catch (const std::exception& e) {
    own = std::current_exception();
    mine = {{"fault", static_cast<int>(Fault::Internal)}, {"error", first_line(e.what())}};
  }
  const auto texts = group.gather_text(mine.dump(), subject);
  if (own)
    std::rethrow_exception(own);
  std::vector<std::string> results;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const Json theirs = Json::parse(texts[i]);
    if (theirs.contains("error")) {
      throw Error({.fault = static_cast<Fault>(theirs.at("fault").get<int>()),
                   .where = {.operation = subject},
                   .problem = cat("rank ",
                                  group.global(GroupRank{static_cast<int>(i)}).value,
                                  " could not do its part"),
                   .cause = theirs.at("error").get<std::string>(),
                   .next = "See that rank's error"});
    }
    results.push_back(theirs.at("result").get<std::string>());
  }
  return results;
}

std::vector<Holding> holdings_of(const std::vector<StateTensor>& tensors) {
  std::vector<Holding> holdings;
  for (const StateTensor& tensor : tensors) {
    const std::string fault = misfit(tensor.part, tensor.shape);
    if (!fault.empty() || tensor.data.numel() != tensor.part.size()) {
      throw Error({.where = {.operation = "checkpoint", .subject = tensor.name},
                   .problem = fault.empty() ? "the data is not as large as the part" : fault,
                   .next = "Please report it with the command that led here"});
    }
    holdings.push_back({.name = tensor.name,
                        .dtype = dtype_of(tensor.data, tensor.name),
                        .shape = tensor.shape,
                        .part = tensor.part});
  }
  return holdings;
}

/// Whole tensors keep their shape in the file, so that any safetensors reader gets them; parts are
/// a row.
std::vector<std::int64_t> file_shape(const Holding& holding) {
  return holding.part == whole(holding.shape) ? holding.shape
                                              : std::vector<std::int64_t>{holding.part.size()};
}

FileRecord write_tensors(const fs::path& path,
                         const std::vector<StateTensor>& tensors,
                         const std::vector<Holding>& holdings,
                         const std::vector<std::size_t>& writes) {
  const auto keys = keys_of(holdings, writes);
  std::map<std::string, std::size_t> tensor_of_key;
  std::vector<SafetensorsTensor> rows;
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const Holding& holding = holdings[writes[k]];
    rows.push_back({.name = keys[k], .dtype = holding.dtype, .shape = file_shape(holding)});
    tensor_of_key[keys[k]] = writes[k];
  }
  const SafetensorsHeader header = lay_out(std::move(rows), {{"format", "pt"}});
  const std::string head = header_bytes(header);
  const std::int64_t data_bytes = header.tensors.empty() ? 0 : header.tensors.back().end_bytes;
  BlockWriter writer(path, kBlockBytes, std::ssize(head) + data_bytes);
  writer.append(head);
  for (const SafetensorsTensor& row : header.tensors) {
    const at::Tensor data = tensors[tensor_of_key.at(row.name)].data.detach().cpu().contiguous();
    const auto bytes = bytes_of(data);
    writer.append({bytes.data(), bytes.size()});
  }
  return writer.finish();
}

void start_folder(const RunFolder& run, std::int64_t step) {
  std::error_code failed;
  fs::remove_all(run.partial(step), failed);
  fs::create_directories(run.partial(step), failed);
  if (failed) {
    throw Error({.fault = Fault::Storage,
                 .where = {.subject = run.partial(step).string()},
                 .problem = "the folder for a checkpoint cannot be made",
                 .cause = failed.message(),
                 .next = "Check permissions and space, or write elsewhere with --out"});
  }
}

void write_manifest(const RunFolder& run,
                    const Snapshot& snapshot,
                    const Index& index,
                    const std::vector<std::string>& records) {
  const fs::path folder = run.partial(snapshot.step);
  Manifest manifest{.step = snapshot.step,
                    .num_ranks = static_cast<int>(records.size()),
                    .block_bytes = kBlockBytes,
                    .state = snapshot.state};
  for (const std::string& record : records) {
    if (!record.empty())
      manifest.files.push_back(parse_line(record));
  }
  const std::string text = to_json(index);
  BlockWriter writer(folder / "index.json", kBlockBytes, std::ssize(text));
  writer.append(text);
  manifest.files.push_back(writer.finish());
  write_file_atomically(folder / "manifest.json", to_json(manifest));
  publish(run, snapshot.step);
}

}  // namespace

StateTensor whole_tensor(std::string name, const at::Tensor& data) {
  const auto sizes = data.sizes().vec();
  return {.name = std::move(name), .shape = sizes, .part = whole(sizes), .data = data};
}

void save(const RunFolder& run, const Snapshot& all, const Group& group) {
  Snapshot snapshot = all;
  // A rank that holds nothing of a tensor has nothing to say of it.
  std::erase_if(snapshot.tensors, [](const StateTensor& tensor) {
    return tensor.part.size() == 0 && num_elements(tensor.shape) > 0;
  });
  const std::string subject = cat("checkpoint of step ", snapshot.step);
  const bool is_first = group.rank() == GroupRank{0};
  const std::vector<Holding> mine = holdings_of(snapshot.tensors);
  try {
    const auto texts = agree(group, subject + ": tensors", [&] {
      if (is_first)
        start_folder(run, snapshot.step);
      return to_text(mine);
    });
    std::vector<std::vector<Holding>> of_ranks;
    for (const std::string& text : texts)
      of_ranks.push_back(parse_holdings(text));
    const auto writes = share_out(of_ranks);
    Index index = index_of(of_ranks, writes);
    index.aliases = snapshot.aliases;

    const int rank = group.rank().value;
    const auto& own = writes[static_cast<std::size_t>(rank)];
    const auto records = agree(group, subject + ": files", [&] {
      if (own.empty())
        return std::string();
      return to_line(write_tensors(
          run.partial(snapshot.step) / rank_file_name(rank), snapshot.tensors, mine, own));
    });
    agree(group, subject + ": manifest", [&] {
      if (is_first)
        write_manifest(run, snapshot, index, records);
      return std::string();
    });
  } catch (const Error& e) {
    std::error_code ignored;
    if (is_first && e.fault() != Fault::Peer)
      fs::remove_all(run.partial(snapshot.step), ignored);
    throw;
  }
}

}  // namespace lockstep::checkpoint
