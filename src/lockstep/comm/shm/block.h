// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/comm/shm/heap.h"
#include "lockstep/comm/shm/memory.h"
#include "lockstep/comm/shm/waiting.h"

namespace lockstep::comm::shm {

/// A text in shared memory: its hash covers the whole, its letters are cut.
struct Text {
  std::uint64_t hash = 0;
  std::uint32_t length = 0;  ///< of the letters that are here
  std::array<char, 500> letters{};

  void set(std::string_view text);
  std::string str() const;
  bool same_as(const Text& other) const { return hash == other.hash; }
};

/// What a rank is about to do, for its peers to compare, and where its buffers lie.
struct alignas(64) Slot {
  std::uint64_t sequence = 0;
  Text text;
  Place source;
};

/// Transfers of one rank to another one.
struct Mailbox {
  Counter posted;  ///< by the sender: one for a head, one for each chunk
  Counter taken;   ///< by the receiver, the same
  std::atomic<std::uint32_t> refused{0};
  std::uint64_t bytes = 0;
  Text text;
  Text receiver_text;  ///< set before `refused`
};

/// The memory that the ranks of one group share: a gate, two slots a rank, windows for buffers that peers cannot reach, and
/// mailboxes. Nothing but zeros at first. It goes with the last process that holds it.
///
/// Memory   n ranks: 2 n windows of kWindowBytes, n^2 mailboxes of two chunks.
/// Lifetime The mapping of one process; every rank has one of its own, or thread ranks share one.
class Block {
 public:
  /// Half of what a rank puts into its window at once, while peers read the other half.
  static constexpr std::size_t kWindowBytes = std::size_t{256} << 10U;

  static std::size_t bytes_for(int ranks);
  /// Takes the memory of a new block. Errors: Environment with the needed and the found bytes.
  static Descriptor make(int ranks, std::string_view group, const Budget& budget);

  Block(int fd, int ranks);

  int ranks() const { return ranks_; }
  Gate& gate() const { return at<Gate>(0); }
  Counter& standing(int rank) const;  ///< how often a rank came to the gate
  Slot& slot(int rank, unsigned parity) const;
  std::byte* window(int rank, std::size_t half) const;
  Mailbox& mailbox(int from, int to) const;
  std::byte* chunk(int from, int to, std::size_t half) const;
  std::size_t chunk_bytes() const { return chunk_bytes_for(ranks_); }

 private:
  static std::size_t chunk_bytes_for(int ranks);
  static std::size_t slots_at(int ranks);
  static std::size_t windows_at(int ranks);
  static std::size_t mailboxes_at(int ranks);
  static std::size_t chunks_at(int ranks);
  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * static_cast<std::size_t>(ranks_) +
           static_cast<std::size_t>(to);
  }
  template <typename T>
  T& at(std::size_t offset) const {
    return *reinterpret_cast<T*>(mapping_.data() + offset);
  }

  int ranks_;
  Mapping mapping_;
};

}  // namespace lockstep::comm::shm
