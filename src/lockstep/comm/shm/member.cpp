// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/shm/member.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/shm/reduce.h"

namespace lockstep::comm::shm {

namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

struct Part {
  std::size_t begin = 0;
  std::size_t bytes = 0;
};

// Chunk `number` of `size` bytes each, of `whole`; empty beyond its end.
Part chunk_of(Part whole, std::size_t number, std::size_t size) {
  const std::size_t skipped = std::min(whole.bytes, number * size);
  return {.begin = whole.begin + skipped, .bytes = std::min(size, whole.bytes - skipped)};
}

std::size_t count_chunks(std::size_t bytes, std::size_t size) { return (bytes + size - 1) / size; }

}  // namespace

// Each rank owns one of `ranks` slices of a buffer; a window holds one chunk of each.
struct Member::Slices {
  std::size_t bytes;   // of the buffer
  std::size_t each;    // bytes of a slice; the last ones may be shorter
  std::size_t window;  // bytes of a chunk
  Part of(int rank) const {
    const std::size_t begin = std::min(bytes, index(rank) * each);
    return {.begin = begin, .bytes = std::min(bytes - begin, each)};
  }
  Part chunk(int rank, std::size_t number) const { return chunk_of(of(rank), number, window); }
  std::size_t chunks() const { return count_chunks(each, window); }

  static Slices of_buffer(std::size_t bytes, std::size_t each, int ranks) {
    return {.bytes = bytes, .each = each, .window = Block::kWindowBytes / index(ranks) / 64 * 64};
  }
  // For an all_reduce: slices begin at cache lines.
  static Slices even(std::size_t bytes, int ranks) {
    const std::size_t share = (bytes + index(ranks) - 1) / index(ranks);
    return of_buffer(bytes, (share + 63) / 64 * 64, ranks);
  }
};

Member::Member(std::shared_ptr<Block> block,
               int rank,
               std::vector<std::unique_ptr<PeerHeap>> peers,
               const Heap* heap,
               Patience patience)
    : block_(std::move(block)),
      rank_(rank),
      peers_(std::move(peers)),
      heap_(heap),
      patience_(std::move(patience)),
      sources_(index(block_->ranks())) {
  patience_.ranks = block_->ranks();
}

void Member::meet() {
  ++meetings_;
  block_->standing(rank_).value.store(meetings_, std::memory_order_relaxed);
  switch (block_->gate().pass(meetings_, block_->ranks(), patience_)) {
    case Waited::Ready: return;
    case Waited::Stopped: throw Stopped();
    case Waited::Late: break;
  }
  std::vector<std::string> missing;
  for (int rank = 0; rank < block_->ranks(); ++rank) {
    if (block_->standing(rank).value.load(std::memory_order_relaxed) != meetings_)
      missing.push_back(cat(rank));
  }
  throw Error(
      {.fault = Fault::Peer,
       .problem = cat("group rank ",
                      cut_list(missing, 8),
                      " did not come within ",
                      human_seconds(std::chrono::duration<double>(patience_.timeout).count())),
       .next = "Look at what it does there, or raise comm.timeout_seconds"});
}

std::optional<Difference> Member::compare(const Call& call) {
  Slot& mine = block_->slot(rank_, parity_);
  mine.sequence = call.sequence;
  mine.text.set(call.text);
  const auto place = heap_ == nullptr || call.source.empty()
                         ? std::nullopt
                         : heap_->find(call.source.data(), call.source.size());
  mine.source = place.value_or(Place{});
  sent_bytes_ = 0;
  meet();
  const Slot& first = block_->slot(0, parity_);
  in_place_ = !peers_.empty();
  for (int rank = 0; rank < block_->ranks(); ++rank) {
    const Slot& theirs = block_->slot(rank, parity_);
    if (theirs.sequence != first.sequence || !theirs.text.same_as(first.text)) {
      const auto said = [&](const Slot& slot) {
        return theirs.sequence == first.sequence
                   ? slot.text.str()
                   : cat(slot.text.str(), " as call #", slot.sequence);
      };
      return Difference{.rank_a = 0, .rank_b = rank, .a = said(first), .b = said(theirs)};
    }
    in_place_ = in_place_ && theirs.source.block_bytes > 0;
  }
  // Others may read this slot until all came here; by the next meeting they did.
  for (int rank = 0; rank < block_->ranks(); ++rank) {
    const Place& there = block_->slot(rank, parity_).source;
    const bool reachable = !peers_.empty() && there.block_bytes > 0 && rank != rank_;
    sources_[index(rank)] = reachable ? peers_[index(rank)]->at(there) : nullptr;
  }
  parity_ ^= 1U;
  return std::nullopt;
}

void Member::copy(std::byte* to, const std::byte* from, std::size_t bytes) const {
  if (bytes > 0 && to != from)
    std::memcpy(to, from, bytes);
}

// The chunks of the slices of all others, into this rank's window.
void Member::stage(const std::byte* data, const Slices& slices, std::size_t chunk) {
  std::byte* window = block_->window(rank_, chunk % 2);
  for (int rank = 0; rank < block_->ranks(); ++rank) {
    if (rank == rank_)
      continue;
    const Part part = slices.chunk(rank, chunk);
    copy(window + index(rank) * slices.window, data + part.begin, part.bytes);
    sent_bytes_ += static_cast<std::int64_t>(part.bytes);
  }
}

// A chunk of this rank's slice, from its own buffer and the windows of all others.
void Member::reduce_chunk(const std::byte* data,
                          std::span<std::byte* const> results,
                          const Slices& slices,
                          std::size_t chunk,
                          Element element,
                          Reduction reduction) {
  const Part part = slices.chunk(rank_, chunk);
  if (part.bytes == 0)
    return;
  std::vector<const std::byte*> sources;
  for (int rank = 0; rank < block_->ranks(); ++rank) {
    sources.push_back(rank == rank_
                          ? data + part.begin
                          : block_->window(rank, chunk % 2) + index(rank_) * slices.window);
  }
  reduce(element, reduction, sources, results, part.bytes / bytes_of(element));
}

// The chunks that all others left in their windows at their own place, into their slices here.
void Member::collect(std::byte* data, const Slices& slices, std::size_t chunk) {
  for (int rank = 0; rank < block_->ranks(); ++rank) {
    if (rank == rank_)
      continue;
    const Part part = slices.chunk(rank, chunk);
    copy(data + part.begin,
         block_->window(rank, chunk % 2) + index(rank) * slices.window,
         part.bytes);
  }
}

// In every stage a rank writes only what nobody reads in it: step t copies chunk t into half t % 2, places of others; reduces
// chunk t - 1 from the other half into its own place there; and reads chunk t - 2 from the own places of half t % 2.
void Member::all_reduce(std::span<std::byte> data, Element element, Reduction reduction) {
  if (in_place_)
    return all_reduce_in_place(data, element, reduction);
  const Slices slices = Slices::even(data.size(), block_->ranks());
  const std::size_t chunks = slices.chunks();
  const auto peers = static_cast<std::int64_t>(block_->ranks() - 1);
  for (std::size_t step = 0; step < chunks + 2; ++step) {
    if (step < chunks)
      stage(data.data(), slices, step);
    if (step >= 1 && step <= chunks) {
      const Part part = slices.chunk(rank_, step - 1);
      std::byte* shared = block_->window(rank_, (step - 1) % 2) + index(rank_) * slices.window;
      reduce_chunk(data.data(),
                   std::array{data.data() + part.begin, shared},
                   slices,
                   step - 1,
                   element,
                   reduction);
      sent_bytes_ += static_cast<std::int64_t>(part.bytes) * peers;
    }
    if (step >= 2)
      collect(data.data(), slices, step - 2);
    if (step < chunks + 1)
      meet();
  }
}

void Member::all_reduce_in_place(std::span<std::byte> data, Element element, Reduction reduction) {
  const Part part = Slices::even(data.size(), block_->ranks()).of(rank_);
  std::vector<const std::byte*> sources;
  std::vector<std::byte*> results;
  for (int rank = 0; rank < block_->ranks(); ++rank) {
    std::byte* there = rank == rank_ ? data.data() : sources_[index(rank)];
    sources.push_back(there + part.begin);
    results.push_back(there + part.begin);
  }
  if (part.bytes > 0)
    reduce(element, reduction, sources, results, part.bytes / bytes_of(element));
  sent_bytes_ += 2 * static_cast<std::int64_t>(part.bytes) * (block_->ranks() - 1);
  meet();
}

void Member::reduce_scatter(std::span<std::byte> shard,
                            std::span<const std::byte> full,
                            Element element,
                            Reduction reduction) {
  const Slices slices = Slices::of_buffer(full.size(), shard.size(), block_->ranks());
  if (in_place_) {
    std::vector<const std::byte*> sources;
    for (int rank = 0; rank < block_->ranks(); ++rank) {
      sources.push_back((rank == rank_ ? full.data() : sources_[index(rank)]) +
                        slices.of(rank_).begin);
    }
    reduce(element, reduction, sources, std::array{shard.data()}, shard.size() / bytes_of(element));
    sent_bytes_ += static_cast<std::int64_t>(shard.size()) * (block_->ranks() - 1);
    return meet();
  }
  const std::size_t chunks = slices.chunks();
  for (std::size_t step = 0; step < chunks + 1; ++step) {
    if (step < chunks)
      stage(full.data(), slices, step);
    if (step >= 1) {
      std::byte* result = shard.data() + (step - 1) * slices.window;
      reduce_chunk(full.data(), std::array{result}, slices, step - 1, element, reduction);
    }
    if (step < chunks)
      meet();
  }
}

void Member::all_gather(std::span<std::byte> full, std::span<const std::byte> shard) {
  const auto slice = [&](int rank) { return full.data() + index(rank) * shard.size(); };
  copy(slice(rank_), shard.data(), shard.size());
  const Part whole{.begin = 0, .bytes = shard.size()};
  const std::size_t chunks = in_place_ ? 1 : count_chunks(shard.size(), Block::kWindowBytes);
  for (std::size_t step = 0; step < chunks + 1; ++step) {
    if (step < chunks && !in_place_) {
      const Part part = chunk_of(whole, step, Block::kWindowBytes);
      copy(block_->window(rank_, step % 2), shard.data() + part.begin, part.bytes);
    }
    for (int rank = 0; step >= 1 && rank < block_->ranks(); ++rank) {
      if (rank == rank_)
        continue;
      const Part part = in_place_ ? whole : chunk_of(whole, step - 1, Block::kWindowBytes);
      const std::byte* from =
          in_place_ ? sources_[index(rank)] : block_->window(rank, (step - 1) % 2);
      copy(slice(rank) + part.begin, from, part.bytes);
      sent_bytes_ += static_cast<std::int64_t>(part.bytes);
    }
    if (in_place_ ? step == 1 : step < chunks)
      meet();
  }
}

void Member::broadcast(std::span<std::byte> data, int root) {
  const auto readers = static_cast<std::int64_t>(block_->ranks() - 1);
  if (in_place_) {
    if (rank_ == root) {
      sent_bytes_ += static_cast<std::int64_t>(data.size()) * readers;
    } else {
      copy(data.data(), sources_[index(root)], data.size());
    }
    return meet();
  }
  const Part whole{.begin = 0, .bytes = data.size()};
  const std::size_t chunks = count_chunks(data.size(), Block::kWindowBytes);
  for (std::size_t step = 0; step < chunks + 1; ++step) {
    const std::size_t chunk = rank_ == root ? step : step - 1;
    const Part part = chunk_of(whole, chunk, Block::kWindowBytes);
    std::byte* window = block_->window(root, chunk % 2);
    if (rank_ == root && step < chunks) {
      copy(window, data.data() + part.begin, part.bytes);
      sent_bytes_ += static_cast<std::int64_t>(part.bytes) * readers;
    } else if (rank_ != root && step >= 1) {
      copy(data.data() + part.begin, window, part.bytes);
    }
    if (step < chunks)
      meet();
  }
}

void Member::all_to_all(std::span<std::byte> out, std::span<const std::byte> in) {
  const std::size_t each = in.size() / index(block_->ranks());
  const Slices slices = Slices::of_buffer(in.size(), each, block_->ranks());
  const std::size_t mine = slices.of(rank_).begin;
  copy(out.data() + mine, in.data() + mine, each);
  const std::size_t chunks = slices.chunks();
  for (std::size_t step = 0; step < chunks + 1; ++step) {
    if (step < chunks)
      stage(in.data(), slices, step);
    for (int rank = 0; step >= 1 && rank < block_->ranks(); ++rank) {
      if (rank == rank_)
        continue;
      const Part part = slices.chunk(rank, step - 1);
      copy(out.data() + part.begin,
           block_->window(rank, (step - 1) % 2) + index(rank_) * slices.window,
           part.bytes);
    }
    if (step < chunks)
      meet();
  }
}

}  // namespace lockstep::comm::shm
