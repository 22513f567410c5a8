// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/torch/counting_allocator.h"

#include <thread>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "lockstep/base/memory.h"

namespace lockstep {
namespace {

std::int64_t now(MemoryTag tag) { return memory_report().of(tag).current_bytes; }

TEST(CountingAllocator, CountsBlocksUnderTheTagOfTheirScopeUntilTheyAreFreed) {
  install_counting_allocator();
  const std::int64_t before = now(MemoryTag::Gradients);
  at::Tensor tensor;
  {
    const MemoryScope scope(MemoryTag::Gradients);
    tensor = at::zeros({1000}, at::kFloat);
    {
      const MemoryScope inner(MemoryTag::Optimizer);
      EXPECT_EQ(current_memory_tag(), MemoryTag::Optimizer);
    }
    EXPECT_EQ(current_memory_tag(), MemoryTag::Gradients);
  }
  EXPECT_EQ(current_memory_tag(), MemoryTag::Other);
  EXPECT_EQ(now(MemoryTag::Gradients), before + 4000);
  std::thread([taken = std::move(tensor)]() mutable { taken.reset(); }).join();
  EXPECT_EQ(now(MemoryTag::Gradients), before);
}

TEST(CountingAllocator, KeepsThePeakUntilItIsReset) {
  install_counting_allocator();
  const MemoryScope scope(MemoryTag::Activations);
  reset_memory_peaks();
  const std::int64_t before = now(MemoryTag::Activations);
  const std::int64_t total = memory_report().total.current_bytes;
  {
    const at::Tensor gone = at::empty({300}, at::kDouble);
  }
  EXPECT_EQ(memory_report().of(MemoryTag::Activations).peak_bytes, before + 2400);
  EXPECT_EQ(memory_report().total.peak_bytes, total + 2400);
  reset_memory_peaks();
  EXPECT_EQ(memory_report().of(MemoryTag::Activations).peak_bytes, before);
}

TEST(CountingAllocator, LeavesTensorsAsTheyAre) {
  install_counting_allocator();
  at::Tensor tensor = at::arange(10, at::kFloat);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0U);
  tensor.resize_({1000});
  EXPECT_EQ(tensor[9].item<float>(), 9.0F);
  EXPECT_EQ(at::empty({0}).numel(), 0);
}

}  // namespace
}  // namespace lockstep
