// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/shm/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <optional>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::comm::shm {

namespace {

[[noreturn]] void throw_system(std::string problem, const std::string& subject, std::string next) {
  throw Error({.fault = Fault::Environment,
               .where = {.subject = subject},
               .problem = std::move(problem),
               .cause = std::strerror(errno),
               .next = std::move(next)});
}

[[noreturn]] void throw_too_little(std::string_view purpose, std::uint64_t needed, Budget found) {
  throw Error({.fault = Fault::Environment,
               .where = {.subject = "shared memory"},
               .problem = cat("there is too little memory for ", purpose),
               .expected = cat(needed, " bytes (", human_bytes(static_cast<double>(needed)), ")"),
               .found = cat(found.bytes,
                            " bytes (",
                            human_bytes(static_cast<double>(found.bytes)),
                            ", ",
                            found.limit,
                            ")"),
               .next = "Run fewer ranks on this machine, raise that limit, or set comm.backend = "
                       "gloo"});
}

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::optional<std::uint64_t> number_in(const std::filesystem::path& path) {
  const auto value = parse_int(trim(content_of(path)));
  return value && *value >= 0 ? std::optional(static_cast<std::uint64_t>(*value)) : std::nullopt;
}

std::optional<std::uint64_t> memory_available(const std::filesystem::path& root) {
  for (const std::string& line : split(content_of(root / "proc/meminfo"), '\n')) {
    if (!line.starts_with("MemAvailable:"))
      continue;
    const std::string_view rest = trim(std::string_view(line).substr(line.find(':') + 1));
    const auto kib = parse_int(rest.substr(0, rest.find(' ')));
    if (kib)
      return static_cast<std::uint64_t>(*kib) * 1024;
  }
  return std::nullopt;
}

void take_less(Budget& budget, std::uint64_t bytes, const char* limit) {
  if (bytes < budget.bytes)
    budget = {.bytes = bytes, .limit = limit};
}

// Both versions of control groups; a group's parents limit it too.
void limit_by_cgroup(Budget& budget, const std::filesystem::path& root) {
  for (const std::string& line : split(content_of(root / "proc/self/cgroup"), '\n')) {
    const std::vector<std::string> fields = split(line, ':');
    const bool second = fields.size() == 3 && fields[0] == "0";
    if (fields.size() != 3 || (!second && fields[1] != "memory"))
      continue;
    const std::filesystem::path top = root / (second ? "sys/fs/cgroup" : "sys/fs/cgroup/memory");
    const char* most = second ? "memory.max" : "memory.limit_in_bytes";
    const char* used = second ? "memory.current" : "memory.usage_in_bytes";
    std::filesystem::path group = std::filesystem::path(fields[2]).relative_path();
    for (;; group = group.parent_path()) {
      const auto limit = number_in(top / group / most);
      if (limit) {
        const std::uint64_t taken = number_in(top / group / used).value_or(0);
        take_less(budget,
                  *limit > taken ? *limit - taken : 0,
                  second ? "memory.max of its cgroup" : "memory.limit_in_bytes of its cgroup");
      }
      if (group.empty())
        break;
    }
  }
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0)
    ::close(fd_);
}

Descriptor Descriptor::duplicate() const {
  Descriptor copy(::fcntl(fd_, F_DUPFD_CLOEXEC, 0));
  if (copy.get() < 0) {
    throw_system("cannot keep shared memory",
                 "shared memory",
                 "Raise the number of open files (ulimit -n), or set comm.backend = gloo");
  }
  return copy;
}

Mapping::Mapping(int fd, std::uint64_t offset, std::size_t bytes) : bytes_(bytes) {
  void* address = ::mmap(nullptr,
                         bytes,
                         PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_POPULATE,
                         fd,
                         static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    throw_system(cat("cannot map ", bytes, " bytes"),
                 "shared memory",
                 "Raise the limit of the address space (ulimit -v), or set comm.backend = gloo");
  }
  data_ = static_cast<std::byte*>(address);
}

Mapping::~Mapping() {
  if (data_ != nullptr)
    ::munmap(data_, bytes_);
}

Budget available_memory(const std::filesystem::path& root) {
  Budget budget{.bytes = std::numeric_limits<std::int64_t>::max(), .limit = "no limit is known"};
  if (const auto bytes = memory_available(root))
    take_less(budget, *bytes, "MemAvailable of /proc/meminfo");
  limit_by_cgroup(budget, root);
  return budget;
}

Descriptor make_memory_file(const char* label) {
  Descriptor file(::memfd_create(label, MFD_CLOEXEC));
  if (file.get() < 0) {
    throw_system("cannot make a file in memory",
                 "shared memory",
                 "Raise the number of open files (ulimit -n), or set comm.backend = gloo");
  }
  return file;
}

void take_memory(int fd,
                 std::uint64_t offset,
                 std::uint64_t bytes,
                 std::string_view purpose,
                 const Budget& budget) {
  if (budget.bytes < bytes)
    throw_too_little(purpose, bytes, budget);
  // A file must not end beyond the file size limit: asking for that would be answered by SIGXFSZ.
  rlimit file_size{};
  if (::getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur < offset + bytes) {
    const std::uint64_t left = file_size.rlim_cur > offset ? file_size.rlim_cur - offset : 0;
    throw_too_little(purpose, bytes, {.bytes = left, .limit = "the file size limit, ulimit -f"});
  }
  const int failed = ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (failed == ENOSPC || failed == ENOMEM)
    throw_too_little(purpose, bytes, {.bytes = 0, .limit = "the system refuses more"});
  if (failed != 0) {
    errno = failed;
    throw_system(cat("cannot take ", bytes, " bytes for ", purpose),
                 "shared memory",
                 "Set comm.backend = gloo");
  }
}

void return_memory(int fd, std::uint64_t offset, std::uint64_t bytes) {
  ::fallocate(fd,
              FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
}

std::size_t round_to_pages(std::size_t bytes) {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace lockstep::comm::shm
