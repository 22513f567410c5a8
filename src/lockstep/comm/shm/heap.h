// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "lockstep/base/memory.h"
#include "lockstep/comm/shm/memory.h"

namespace lockstep::comm::shm {

/// Where bytes lie in a rank's heap: in which block of the file, and how far into it.
struct Place {
  std::uint64_t block = 0;
  std::uint64_t block_bytes = 0;  ///< 0: not in the heap
  std::uint64_t offset = 0;
};

/// Memory of one rank that its peers can reach: buffers that collectives read and write in place.
/// For few large buffers that live long (gradients, parameters): each is at least a page, and taken whole from the system.
/// Counts under the caller's current memory tag.
/// Errors   Environment: too little memory, with the needed and found bytes.
/// Threads  Any.
class Heap {
 public:
  Heap() : file_(make_memory_file("lockstep heap")) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// Zeroed, aligned to a page. Given back when the last owner lets go of it; the heap must live until then.
  std::byte* allocate(std::size_t bytes);
  void free(std::byte* data);

  std::optional<Place> find(const void* data, std::size_t bytes) const;
  int fd() const { return file_.get(); }

 private:
  struct Block {
    std::uint64_t offset = 0;  // in the file
    Mapping mapping;
    MemoryTag tag = MemoryTag::Other;
  };

  Descriptor file_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Block> blocks_;  // by address
  std::multimap<std::size_t, std::uint64_t>
      free_offsets_;  // by size: a place keeps its size for ever
  std::uint64_t end_ = 0;
};

/// A peer's heap, seen from here. Blocks are mapped when they are first used, and stay mapped.
class PeerHeap {
 public:
  explicit PeerHeap(Descriptor file) : file_(std::move(file)) {}
  std::byte* at(const Place& place);

 private:
  Descriptor file_;
  std::map<std::uint64_t, Mapping> blocks_;
};

}  // namespace lockstep::comm::shm
