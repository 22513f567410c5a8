// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/pure/block_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string remedy(int code) {
  if (code == ENOSPC || code == EDQUOT)
    return "Free space on that disk or write to another with --out; what was saved before is "
           "untouched";
  if (code == EACCES || code == EPERM || code == EROFS)
    return "Give this user write permission there, or write elsewhere with --out";
  if (code == ENOENT)
    return "Check the path";
  return "Check the disk";
}

[[noreturn]] void refuse(const fs::path& path, std::string problem, int code) {
  throw Error({.fault = Fault::Storage,
               .where = {.subject = path.string()},
               .problem = std::move(problem),
               .cause = std::strerror(code),
               .next = remedy(code)});
}

[[noreturn]] void damaged(const fs::path& path,
                          std::string problem,
                          std::string expected,
                          std::string found) {
  throw Error(
      {.fault = Fault::Storage,
       .where = {.subject = path.string()},
       .problem = std::move(problem),
       .expected = std::move(expected),
       .found = std::move(found),
       .next =
           "Take another checkpoint of the run: --resume DIR with the folder of an earlier step"});
}

int create(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0)
    refuse(path,
           errno == EEXIST ? "is there already; two writers of one file" : "cannot be created",
           errno);
  return fd;
}

std::size_t num_blocks(std::int64_t size_bytes, std::int64_t block_bytes) {
  return static_cast<std::size_t>((size_bytes + block_bytes - 1) / block_bytes);
}

}  // namespace

std::string checksum_text(std::string_view bytes) {
  return hex(checksum(std::as_bytes(std::span(bytes))));
}

BlockWriter::BlockWriter(fs::path path, std::int64_t block_bytes, std::int64_t expected_bytes)
    : path_(std::move(path)), block_bytes_(block_bytes), expected_bytes_(expected_bytes) {
  check_free_bytes(path_, static_cast<std::uint64_t>(expected_bytes_));
  fd_ = create(path_);
  record_.name = path_.filename().string();
  block_.reserve(static_cast<std::size_t>(block_bytes_));
}

BlockWriter::~BlockWriter() {
  if (fd_ < 0)
    return;
  ::close(fd_);
  ::unlink(path_.c_str());
}

void BlockWriter::refuse_write(int code) const {
  if (code != ENOSPC && code != EDQUOT)
    refuse(path_, "cannot be written", code);
  const std::int64_t free =
      static_cast<std::int64_t>(free_bytes(path_)) + written_bytes_;  // this file goes
  throw Error({.fault = Fault::Storage,
               .where = {.subject = path_.string()},
               .problem = "the disk has no room for the file",
               .expected = cat(std::max(expected_bytes_, record_.size_bytes), " bytes"),
               .found = cat(free, " bytes free"),
               .cause = std::strerror(code),
               .next = remedy(code)});
}

void BlockWriter::flush_block() {
  for (std::string_view bytes = block_; !bytes.empty();) {
    const ssize_t wrote = ::write(fd_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote < 0)
      refuse_write(errno);
    written_bytes_ += wrote;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  record_.blocks.push_back(checksum_text(block_));
  block_.clear();
}

void BlockWriter::append(std::string_view bytes) {
  record_.size_bytes += static_cast<std::int64_t>(bytes.size());
  while (!bytes.empty()) {
    const auto room = static_cast<std::size_t>(block_bytes_) - block_.size();
    block_.append(bytes.substr(0, room));
    bytes.remove_prefix(std::min(room, bytes.size()));
    if (block_.size() == static_cast<std::size_t>(block_bytes_))
      flush_block();
  }
}

FileRecord BlockWriter::finish() {
  if (!block_.empty())
    flush_block();
  if (::fsync(fd_) != 0)
    refuse_write(errno);
  BlockReader(path_, record_, block_bytes_).verify_all();
  if (::close(std::exchange(fd_, -1)) != 0)
    refuse(path_, "cannot be closed", errno);
  return record_;
}

BlockReader::BlockReader(fs::path path, FileRecord record, std::int64_t block_bytes)
    : path_(std::move(path)), record_(std::move(record)), block_bytes_(block_bytes) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0)
    refuse(path_, "cannot be opened", errno);
  struct stat status{};
  const bool known = ::fstat(fd_, &status) == 0;
  if (known && status.st_size == record_.size_bytes &&
      record_.blocks.size() == num_blocks(record_.size_bytes, block_bytes_)) {
    return;
  }
  ::close(std::exchange(fd_, -1));
  damaged(path_,
          "the file does not have the size it was written with",
          cat(record_.size_bytes, " bytes"),
          cat(status.st_size, " bytes"));
}

BlockReader::~BlockReader() {
  if (fd_ >= 0)
    ::close(fd_);
}

void BlockReader::load_block(std::size_t number) {
  if (loaded_ == number)
    return;
  loaded_ = SIZE_MAX;
  const std::int64_t start = static_cast<std::int64_t>(number) * block_bytes_;
  block_.resize(static_cast<std::size_t>(std::min(block_bytes_, record_.size_bytes - start)));
  std::size_t have = 0;
  while (have < block_.size()) {
    const ssize_t got = ::pread(
        fd_, block_.data() + have, block_.size() - have, start + static_cast<std::int64_t>(have));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      refuse(path_, "cannot be read", errno);
    if (got == 0)
      damaged(path_,
              "the file ends early",
              cat(record_.size_bytes, " bytes"),
              cat(start + static_cast<std::int64_t>(have), " bytes"));
    have += static_cast<std::size_t>(got);
  }
  const std::string sum = checksum_text(block_);
  if (sum != record_.blocks[number]) {
    damaged(path_,
            cat("the checksum of bytes ",
                start,
                " to ",
                start + static_cast<std::int64_t>(block_.size()),
                " is wrong"),
            record_.blocks[number],
            sum);
  }
  loaded_ = number;
}

void BlockReader::read(std::int64_t offset_bytes, std::span<char> out) {
  if (offset_bytes < 0 ||
      offset_bytes + static_cast<std::int64_t>(out.size()) > record_.size_bytes) {
    damaged(
        path_,
        "a tensor lies outside the file",
        cat(record_.size_bytes, " bytes"),
        cat("bytes ", offset_bytes, " to ", offset_bytes + static_cast<std::int64_t>(out.size())));
  }
  while (!out.empty()) {
    load_block(static_cast<std::size_t>(offset_bytes / block_bytes_));
    const auto from = static_cast<std::size_t>(offset_bytes % block_bytes_);
    const std::size_t count = std::min(out.size(), block_.size() - from);
    std::memcpy(out.data(), block_.data() + from, count);
    out = out.subspan(count);
    offset_bytes += static_cast<std::int64_t>(count);
  }
}

void BlockReader::verify_all() {
  for (std::size_t number = 0; number < record_.blocks.size(); ++number)
    load_block(number);
}

std::string read_text(const fs::path& path) {
  const MappedFile file(path);
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

}  // namespace lockstep::checkpoint
