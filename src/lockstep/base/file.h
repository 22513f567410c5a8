// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

/// A whole file, mapped read-only into memory: nothing is read before it is touched, and ranks of a
/// host share the pages.
///
/// Errors    Storage: there is no such file, it cannot be read, or it is a folder.
/// Lifetime  The bytes live as long as the object. The file may be replaced by rename meanwhile,
///           but not cut: touching bytes that are gone ends the process (SIGBUS).
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// A file that appears whole or not at all: written as `<path>.partial` beside its place, then
/// synced and renamed by commit(). What was at `path` stays until then. Without commit() (an error,
/// a full disk) the part is removed; after a kill -9 it stays and the next writer reuses it. One
/// writer at a time: a second one is refused.
///
/// Errors  Storage, with the bytes needed and free where the disk is full; the old file is
///         untouched.
class AtomicFile {
 public:
  /// `expected_bytes`, where known, is checked against the free space before anything is written.
  explicit AtomicFile(std::filesystem::path path, std::uint64_t expected_bytes = 0);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  void append(std::span<const std::byte> bytes);
  /// Replaces bytes written before, such as a header whose checksum is known last.
  void overwrite(std::uint64_t offset, std::span<const std::byte> bytes);
  std::uint64_t size() const { return size_; }
  /// Makes durable what was written so far, so that commit() has only the name left to change.
  void sync();
  void commit();

 private:
  void write_all(std::uint64_t offset, std::span<const std::byte> bytes);
  std::filesystem::path partial() const;
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  int fd_ = -1;
};

/// One AtomicFile with `content`.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Makes renames and new names in `folder` survive a power cut.
void sync_folder(const std::filesystem::path& folder);

/// Bytes that this user can still write on the disk that holds `path` (or would hold it).
std::uint64_t free_bytes(const std::filesystem::path& path);

/// Throws Storage naming the disk, the bytes needed and the bytes free, unless `needed_bytes` fit
/// beside `path`.
void check_free_bytes(const std::filesystem::path& path, std::uint64_t needed_bytes);

/// XXH3 with 64 bits, piece by piece: the same value as of the whole. Finds damage, not forgery.
class Checksum {
 public:
  Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;
  ~Checksum();
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t checksum(std::span<const std::byte> bytes);

/// 16 hexadecimal digits.
std::string hex(std::uint64_t value);

}  // namespace lockstep
