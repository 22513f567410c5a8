// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/comm/shm/member.h"
#include "lockstep/comm/shm/post.h"

namespace lockstep::test {

/// A rank of a group over shared memory, as a thread.
struct ThreadRank {
  int rank = 0;
  comm::shm::Member& member;
  comm::shm::Post& post;
  comm::shm::Heap& heap;
};

struct ThreadRanks {
  int size = 2;
  bool reach_heaps = false;  ///< peers read and write buffers in heaps in place
  comm::shm::Patience patience{.timeout = std::chrono::seconds(30), .stop = nullptr};
};

/// Runs `body` once a rank. All ranks share one mapping, so that the thread sanitizer sees them meet in the same memory.
inline void run(const ThreadRanks& ranks, const std::function<void(ThreadRank&)>& body) {
  using namespace comm::shm;
  const Descriptor file = Block::make(ranks.size, "test", available_memory());
  const auto block = std::make_shared<Block>(file.get(), ranks.size);
  std::vector<std::unique_ptr<Heap>> heaps;
  for (int rank = 0; rank < ranks.size; ++rank)
    heaps.push_back(std::make_unique<Heap>());
  std::vector<std::string> failures(heaps.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks.size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        std::vector<std::unique_ptr<PeerHeap>> peers;
        for (const auto& heap : heaps) {
          if (ranks.reach_heaps)
            peers.push_back(std::make_unique<PeerHeap>(Descriptor(::dup(heap->fd()))));
        }
        Heap& heap = *heaps[static_cast<std::size_t>(rank)];
        Member member(block, rank, std::move(peers), &heap, ranks.patience);
        Post post(block, rank, ranks.patience);
        ThreadRank self{.rank = rank, .member = member, .post = post, .heap = heap};
        body(self);
      } catch (const std::exception& error) {
        failures[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (std::size_t rank = 0; rank < failures.size(); ++rank) {
    if (!failures[rank].empty())
      ADD_FAILURE() << "rank " << rank << " failed: " << failures[rank];
  }
}

/// A buffer of `count` elements: in the rank's heap, or ordinary memory.
template <typename T>
class Buffer {
 public:
  Buffer(comm::shm::Heap* heap, std::size_t count) : heap_(heap), count_(count) {
    if (heap_ == nullptr) {
      own_.resize(count);
      data_ = own_.data();
    } else {
      data_ = reinterpret_cast<T*>(heap_->allocate(count * sizeof(T)));
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (heap_ != nullptr)
      heap_->free(reinterpret_cast<std::byte*>(data_));
  }
  std::span<T> values() const { return {data_, count_}; }
  std::span<std::byte> bytes() const { return std::as_writable_bytes(values()); }

 private:
  comm::shm::Heap* heap_;
  std::size_t count_;
  std::vector<T> own_;
  T* data_ = nullptr;
};

}  // namespace lockstep::test
