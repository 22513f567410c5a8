// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

Error storage_error(const std::filesystem::path& path, std::string problem, int number) {
  return Error({.fault = Fault::Storage,
                .where = {.subject = path.string()},
                .problem = std::move(problem),
                .cause = std::strerror(number),
                .next = "Check the path, its permissions and the disk"});
}

Error full_disk(const std::filesystem::path& path, std::uint64_t needed, std::uint64_t free) {
  return Error(
      {.fault = Fault::Storage,
       .where = {.subject = path.string()},
       .problem = "the disk has no room for the file; what was there is untouched",
       .expected = cat(needed, " bytes (", human_bytes(static_cast<double>(needed)), ")"),
       .found = cat(free, " bytes free (", human_bytes(static_cast<double>(free)), ")"),
       .next = cat("Free space on the disk of ", folder_of(path).string(), " or write elsewhere")});
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // no wait at a pipe
  if (fd < 0) {
    const int number = errno;
    throw storage_error(
        path, number == ENOENT ? "there is no such file" : "the file cannot be opened", number);
  }
  struct stat status{};
  int number = ::fstat(fd, &status) == 0 ? 0 : errno;
  if (number == 0 && S_ISDIR(status.st_mode))
    number = EISDIR;
  if (number == 0 && !S_ISREG(status.st_mode)) {
    ::close(fd);
    throw Error({.fault = Fault::Storage,
                 .where = {.subject = path.string()},
                 .problem = "this is not a regular file",
                 .next = "Write its content to a file and give that"});
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (number == 0 && size_ > 0) {
    void* data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      number = errno;
    } else {
      data_ = static_cast<const std::byte*>(data);
    }
  }
  ::close(fd);
  if (number != 0)
    throw storage_error(path, "the file cannot be read", number);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr)
    ::munmap(const_cast<std::byte*>(data_), size_);
}

std::filesystem::path AtomicFile::partial() const { return path_.string() + ".partial"; }

AtomicFile::AtomicFile(std::filesystem::path path, std::uint64_t expected_bytes)
    : path_(std::move(path)) {
  check_free_bytes(path_, expected_bytes);
  const int fd = ::open(partial().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0)
    throw storage_error(partial(), "the file cannot be created", errno);
  // The lock may be won on a file that its writer has just renamed: then the name leads elsewhere.
  struct stat opened{};
  struct stat named{};
  const bool alone = ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::fstat(fd, &opened) == 0 &&
                     ::stat(partial().c_str(), &named) == 0 && opened.st_ino == named.st_ino;
  if (!alone || ::ftruncate(fd, 0) != 0) {
    ::close(fd);
    throw storage_error(path_, "another process is writing this file", EBUSY);
  }
  fd_ = fd;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0)
    return;
  ::unlink(partial().c_str());
  ::close(fd_);
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  write_all(size_, bytes);
  size_ += bytes.size();
}

void AtomicFile::overwrite(std::uint64_t offset, std::span<const std::byte> bytes) {
  LOCKSTEP_ASSERT(offset + bytes.size() <= size_);
  write_all(offset, bytes);
}

void AtomicFile::write_all(std::uint64_t offset, std::span<const std::byte> bytes) {
  LOCKSTEP_ASSERT(fd_ >= 0);
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      const int number = written < 0 ? errno : ENOSPC;
      if (number == ENOSPC || number == EDQUOT) {
        throw full_disk(path_, offset + bytes.size(), offset + free_bytes(path_));
      }
      throw storage_error(path_, cat("writing stopped after ", offset, " bytes"), number);
    }
    offset += static_cast<std::uint64_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::sync() {
  LOCKSTEP_ASSERT(fd_ >= 0);
  if (::fsync(fd_) != 0) {
    if (errno == ENOSPC || errno == EDQUOT)
      throw full_disk(path_, size_, free_bytes(path_));
    throw storage_error(path_, "the file cannot be made durable", errno);
  }
}

void AtomicFile::commit() {
  sync();
  if (::rename(partial().c_str(), path_.c_str()) != 0) {
    throw storage_error(path_, "the finished file cannot be put in its place", errno);
  }
  ::close(std::exchange(fd_, -1));
  sync_folder(folder_of(path_));
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path, content.size());
  file.append(std::as_bytes(std::span(content)));
  file.commit();
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    throw storage_error(folder, "the folder cannot be opened", errno);
  const int number = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Some file systems cannot sync a folder; they say so with EINVAL.
  if (number != 0 && number != EINVAL)
    throw storage_error(folder, "the folder cannot be made durable", number);
}

std::uint64_t free_bytes(const std::filesystem::path& path) {
  struct statvfs status{};
  const std::filesystem::path folder = folder_of(path);
  if (::statvfs(folder.c_str(), &status) != 0) {
    throw storage_error(
        folder, errno == ENOENT ? "there is no such folder" : "the folder cannot be read", errno);
  }
  return std::uint64_t{status.f_bavail} * status.f_frsize;
}

void check_free_bytes(const std::filesystem::path& path, std::uint64_t needed_bytes) {
  const std::uint64_t free = free_bytes(path);
  if (needed_bytes > free)
    throw full_disk(path, needed_bytes, free);
}

}  // namespace lockstep
