// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// A file of a checkpoint as it was written. Checksums are per block, so that a rank which reads a
/// slice of a file verifies what it read and no more.
struct FileRecord {
  std::string name;
  std::int64_t size_bytes = 0;
  std::vector<std::string>
      blocks;  ///< checksum of each block of Manifest::block_bytes, the last one shorter
};

/// manifest.json: what makes a folder a checkpoint. It is written last and holds its own checksum.
struct Manifest {
  std::int64_t step = 0;
  int num_ranks = 0;  ///< that wrote it; any other number can read it
  std::int64_t block_bytes = 0;
  std::vector<FileRecord> files;  ///< all but manifest.json
  std::string state = "{}";  ///< one JSON object: counters, sampler, schedule, seed, configuration;
                             ///< owned by the trainer

  /// Throws Storage naming `file` and `folder` when it is not listed.
  const FileRecord& file(std::string_view name, std::string_view folder) const;
};

std::string to_json(const Manifest& manifest);

/// Throws Storage naming `file` for what is no manifest, or one that was changed since it was
/// written.
Manifest parse_manifest(std::string_view text, std::string_view file);

/// One file's record as a line of JSON, for sending it to the rank that writes the manifest.
std::string to_line(const FileRecord& record);
FileRecord parse_line(std::string_view line);

}  // namespace lockstep::checkpoint
