// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/shm/block.h"
#include "lockstep/comm/shm/element.h"
#include "lockstep/comm/shm/heap.h"
#include "lockstep/comm/shm/waiting.h"

namespace lockstep::comm::shm {

/// Two ranks of the group, by their places, with different calls at one place.
struct Difference {
  int rank_a = 0;
  int rank_b = 0;
  std::string a;
  std::string b;
};

/// The wait was ended by Patience::stop: whoever set it knows why.
class Stopped : public std::runtime_error {
 public:
  Stopped() : std::runtime_error("the group was stopped while it waited for other ranks") {}
};

/// One rank's part in the collectives of a group over shared memory.
///
/// Every collective is two calls: compare(), where all ranks meet and see that they are about to do the same, and the
/// operation itself; buffers are those that compare() was told of. A buffer in the rank's heap is read (and, by all_reduce,
/// written) by peers in place, when every rank's is there; others pass through windows in chunks, three stages of them under
/// way at once: copied in, reduced, copied out.
///
/// Order    Ranks are reduced in the order of their places, so that no result depends on timing; every rank gets the same bits.
/// Cost     all_reduce reads and writes each element once a rank in place, and twice more in the cache through windows; one
///          meeting a chunk of Block::kWindowBytes, two in place.
/// Errors   Peer: a rank did not come in time, named by its place. Stopped. After either the object can only be destroyed.
/// Threads  One. Lifetime: the heap outlives it.
class Member {
 public:
  struct Call {
    std::uint64_t sequence = 0;
    std::string_view text;  ///< operation, type, shape, subject: what all ranks must give alike
    /// What peers may read in place: all_reduce, broadcast: the buffer; reduce_scatter, all_gather, all_to_all: the input.
    std::span<const std::byte> source;
  };

  Member(
      std::shared_ptr<Block> block,
      int rank,
      std::vector<std::unique_ptr<PeerHeap>> peers,  ///< one a rank; none: nothing is read in place
      const Heap* heap,
      Patience patience);

  /// Meets all ranks. A difference is found by all of them, the same one, and no data moves. Also a barrier.
  std::optional<Difference> compare(const Call& call);

  void all_reduce(std::span<std::byte> data, Element element, Reduction reduction);
  void reduce_scatter(std::span<std::byte> shard,
                      std::span<const std::byte> full,
                      Element element,
                      Reduction reduction);
  void all_gather(std::span<std::byte> full, std::span<const std::byte> shard);
  void broadcast(std::span<std::byte> data, int root);
  void all_to_all(std::span<std::byte> out, std::span<const std::byte> in);

  /// Payload that this rank handed to peers in the last operation, counted where it was copied; of what was read in place,
  /// what this rank read.
  std::int64_t sent_bytes() const { return sent_bytes_; }
  /// Whether the last compare found every rank's buffer in its heap.
  bool in_place() const { return in_place_; }
  const Block& block() const { return *block_; }

 private:
  struct Slices;  // of a buffer, one a rank

  void meet();
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) const;
  void stage(const std::byte* data, const Slices& slices, std::size_t chunk);
  void reduce_chunk(const std::byte* data,
                    std::span<std::byte* const> results,
                    const Slices& slices,
                    std::size_t chunk,
                    Element element,
                    Reduction reduction);
  void collect(std::byte* data, const Slices& slices, std::size_t chunk);
  void all_reduce_in_place(std::span<std::byte> data, Element element, Reduction reduction);

  std::shared_ptr<Block> block_;  // shared with the transfers of this rank, and among thread ranks
  int rank_;
  std::vector<std::unique_ptr<PeerHeap>> peers_;
  const Heap* heap_;
  Patience patience_;
  std::uint32_t meetings_ = 0;
  unsigned parity_ = 0;
  std::vector<std::byte*> sources_;  // of the current call, by rank; null: not in a heap
  bool in_place_ = false;
  std::int64_t sent_bytes_ = 0;
};

}  // namespace lockstep::comm::shm
