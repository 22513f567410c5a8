// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/torch/counting_allocator.h"

#include <cstdint>
#include <new>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include "lockstep/base/memory.h"

namespace lockstep {

namespace {

// Lies before each block. As long as the alignment that libtorch promises, so that the block keeps it.
struct alignas(64) Header {
  std::int64_t bytes = 0;
  MemoryTag tag = MemoryTag::Other;
};
static_assert(sizeof(Header) == 64);

void give_back(void* data) {
  if (data == nullptr)
    return;
  auto* header = static_cast<Header*>(data) - 1;
  count_memory(header->tag, -header->bytes);
  c10::free_cpu(header);
}

class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0)
      return {nullptr, nullptr, &give_back, c10::Device(c10::DeviceType::CPU)};
    auto* header = new (c10::alloc_cpu(bytes + sizeof(Header)))
        Header{.bytes = static_cast<std::int64_t>(bytes), .tag = current_memory_tag()};
    count_memory(header->tag, header->bytes);
    void* data = header + 1;
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void install_counting_allocator() {
  static CountingAllocator* const allocator = [] {
    auto* one = new CountingAllocator;  // tensors are freed until the very end of the process
    c10::SetCPUAllocator(one, 100);
    return one;
  }();
  static_cast<void>(allocator);
}

}  // namespace lockstep
