// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::comm::shm {

/// A descriptor that is closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  /// Errors: Environment when no more files may be open.
  Descriptor duplicate() const;

 private:
  int fd_ = -1;
};

/// Pages of a file that several processes see. Unmapped with its owner.
class Mapping {
 public:
  Mapping() = default;
  /// Maps `bytes` of `fd` from `offset` (a multiple of the page) and makes the pages present. Errors: Environment.
  Mapping(int fd, std::uint64_t offset, std::size_t bytes);
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Memory that this process may still take, and who says so.
struct Budget {
  std::uint64_t bytes = 0;
  std::string limit;  ///< "MemAvailable of /proc/meminfo", "memory.max of its cgroup"
};

/// The least of MemAvailable and what is left in the process's cgroup and those above it. `root` holds proc and sys; tests
/// pass another one.
Budget available_memory(const std::filesystem::path& root = "/");

/// A file in memory without a name: it goes with its last descriptor and mapping, however the processes end.
Descriptor make_memory_file(const char* label);

/// Grows `fd` so that it has `bytes` from `offset` on, and takes the memory now, so that a later write cannot fail.
/// Errors: Environment with the needed and the found bytes, before anything is taken; the file size limit counts too. `purpose`: "the windows of group all".
void take_memory(int fd,
                 std::uint64_t offset,
                 std::uint64_t bytes,
                 std::string_view purpose,
                 const Budget& budget = available_memory());

/// Gives the memory back; the file keeps its length.
void return_memory(int fd, std::uint64_t offset, std::uint64_t bytes);

std::size_t round_to_pages(std::size_t bytes);

}  // namespace lockstep::comm::shm
