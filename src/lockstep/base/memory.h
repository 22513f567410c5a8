// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

/// What a block of memory is for. `Other` is whatever nobody named.
enum class MemoryTag { Other, Parameters, Gradients, Optimizer, Activations, Communication };
inline constexpr std::size_t kMemoryTags = 6;

std::string_view name_of(MemoryTag tag);

struct MemoryUse {
  std::int64_t current_bytes = 0;
  std::int64_t peak_bytes = 0;
};

/// The process's memory as counted where it is taken and given back, never by a formula.
/// Fed by the counting allocator of base/torch (installed by programs; without it every figure is 0) and by other arenas.
/// libtorch allows one allocator a process, so this ledger and a thread's current tag are the only globals of the library.
/// Cost     two atomic additions a block. Threads: any.
struct MemoryReport {
  std::array<MemoryUse, kMemoryTags> tags;
  MemoryUse total;  ///< its peak is that of the sum, not the sum of the peaks

  const MemoryUse& of(MemoryTag tag) const { return tags[static_cast<std::size_t>(tag)]; }
};

MemoryReport memory_report();
/// Peaks start again from what is held now.
void reset_memory_peaks();

/// For allocators: `bytes` more, or less when negative, under `tag`.
void count_memory(MemoryTag tag, std::int64_t bytes);
MemoryTag current_memory_tag();

/// Blocks that this thread takes while the object lives count under `tag`. Scopes nest. A block keeps its tag until it is freed,
/// by whichever thread.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryTag tag);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryTag before_;
};

}  // namespace lockstep
