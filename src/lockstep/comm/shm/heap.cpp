// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/shm/heap.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::comm::shm {

std::byte* Heap::allocate(std::size_t bytes) {
  const std::size_t size = round_to_pages(bytes == 0 ? 1 : bytes);
  const std::lock_guard lock(mutex_);
  const auto reused = free_offsets_.find(size);
  const std::uint64_t offset = reused == free_offsets_.end() ? end_ : reused->second;
  take_memory(file_.get(), offset, size, "a buffer that ranks share");
  Block block{
      .offset = offset, .mapping = Mapping(file_.get(), offset, size), .tag = current_memory_tag()};
  if (reused == free_offsets_.end()) {
    end_ += size;
  } else {
    free_offsets_.erase(reused);
  }
  std::byte* data = block.mapping.data();
  count_memory(block.tag, static_cast<std::int64_t>(size));
  blocks_.emplace(data, std::move(block));
  return data;
}

void Heap::free(std::byte* data) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  LOCKSTEP_ASSERT(found != blocks_.end());
  const std::size_t size = found->second.mapping.bytes();
  count_memory(found->second.tag, -static_cast<std::int64_t>(size));
  return_memory(file_.get(), found->second.offset, size);
  free_offsets_.emplace(size, found->second.offset);
  blocks_.erase(found);
}

std::optional<Place> Heap::find(const void* data, std::size_t bytes) const {
  const auto* begin = static_cast<const std::byte*>(data);
  const std::lock_guard lock(mutex_);
  auto next = blocks_.upper_bound(begin);
  if (next == blocks_.begin())
    return std::nullopt;
  const auto& [start, block] = *--next;
  if (begin + bytes > start + block.mapping.bytes())
    return std::nullopt;
  return Place{.block = block.offset,
               .block_bytes = block.mapping.bytes(),
               .offset = static_cast<std::uint64_t>(begin - start)};
}

std::byte* PeerHeap::at(const Place& place) {
  Mapping& block = blocks_[place.block];
  if (block.data() == nullptr)
    block = Mapping(file_.get(), place.block, place.block_bytes);
  return block.data() + place.offset;
}

}  // namespace lockstep::comm::shm
