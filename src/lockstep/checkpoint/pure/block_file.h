// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/pure/manifest.h"

namespace lockstep::checkpoint {

/// Checksum of some bytes as 16 hexadecimal digits. Source: XXH3, 64 bits (Collet).
std::string checksum_text(std::string_view bytes);

/// Writes a new file from front to back and takes the checksum of each block on the way.
/// Errors  Storage naming the file and the reason (no space, no permission); the destructor removes
///         what was not finished.
class BlockWriter {
 public:
  /// `expected_bytes` is what will be appended, 0 where it is not known. Throws Storage with the bytes that are needed and
  /// those that are free where the disk has no room for them, here or, when others fill it meanwhile, from append.
  BlockWriter(std::filesystem::path path,
              std::int64_t block_bytes,
              std::int64_t expected_bytes = 0);
  ~BlockWriter();
  BlockWriter(const BlockWriter&) = delete;
  BlockWriter& operator=(const BlockWriter&) = delete;

  void append(std::string_view bytes);
  /// Everything is on disk (fsync) and was read back equal to what was given.
  FileRecord finish();

 private:
  void flush_block();
  [[noreturn]] void refuse_write(int code) const;
  void verify(const FileRecord& record) const;

  std::filesystem::path path_;
  std::int64_t block_bytes_;
  int fd_ = -1;
  std::string block_;
  std::int64_t expected_bytes_;
  std::int64_t written_bytes_ = 0;
  FileRecord record_;
};

/// Reads ranges of a file and verifies each block it touches against the file's record.
/// Cost    memory: one block. Errors: Storage naming the file, for a size, a block or a read that
///         is not as recorded.
class BlockReader {
 public:
  BlockReader(std::filesystem::path path, FileRecord record, std::int64_t block_bytes);
  ~BlockReader();
  BlockReader(const BlockReader&) = delete;
  BlockReader& operator=(const BlockReader&) = delete;

  std::int64_t size_bytes() const { return record_.size_bytes; }
  void read(std::int64_t offset_bytes, std::span<char> out);
  /// Reads every block.
  void verify_all();

 private:
  void load_block(std::size_t number);

  std::filesystem::path path_;
  FileRecord record_;
  std::int64_t block_bytes_;
  int fd_ = -1;
  std::string block_;
  std::size_t loaded_ = SIZE_MAX;
};

std::string read_text(const std::filesystem::path& path);

}  // namespace lockstep::checkpoint
