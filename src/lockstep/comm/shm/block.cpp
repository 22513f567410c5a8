// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/shm/block.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/text.h"

namespace lockstep::comm::shm {

namespace {
std::size_t size(int ranks) { return static_cast<std::size_t>(ranks); }
}  // namespace

void Text::set(std::string_view text) {
  hash = 0xcbf29ce484222325U;  // FNV-1a
  for (const char letter : text)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  length = static_cast<std::uint32_t>(std::min(text.size(), letters.size()));
  std::memcpy(letters.data(), text.data(), length);
}

std::string Text::str() const {
  return {letters.data(), std::min<std::size_t>(length, letters.size())};
}

// Two chunks of all pairs stay below 16 MiB, unless they would be too small to be worth a meeting.
std::size_t Block::chunk_bytes_for(int ranks) {
  constexpr std::size_t kAll = std::size_t{16} << 20U;
  const std::size_t fair = kAll / (2 * size(ranks) * size(ranks)) / 4096 * 4096;
  return std::clamp<std::size_t>(fair, std::size_t{16} << 10U, std::size_t{256} << 10U);
}

std::size_t Block::slots_at(int ranks) { return sizeof(Gate) + size(ranks) * sizeof(Counter); }
std::size_t Block::mailboxes_at(int ranks) {
  return slots_at(ranks) + 2 * size(ranks) * sizeof(Slot);
}
std::size_t Block::windows_at(int ranks) {
  return round_to_pages(mailboxes_at(ranks) + size(ranks) * size(ranks) * sizeof(Mailbox));
}
std::size_t Block::chunks_at(int ranks) {
  return windows_at(ranks) + 2 * size(ranks) * kWindowBytes;
}
std::size_t Block::bytes_for(int ranks) {
  return round_to_pages(chunks_at(ranks) + 2 * size(ranks) * size(ranks) * chunk_bytes_for(ranks));
}

Descriptor Block::make(int ranks, std::string_view group, const Budget& budget) {
  Descriptor file = make_memory_file("lockstep group");
  take_memory(file.get(),
              0,
              bytes_for(ranks),
              cat("the windows of ", ranks, " ranks of group ", group),
              budget);
  return file;
}

Block::Block(int fd, int ranks) : ranks_(ranks), mapping_(fd, 0, bytes_for(ranks)) {}

Counter& Block::standing(int rank) const {
  return at<Counter>(sizeof(Gate) + size(rank) * sizeof(Counter));
}

Slot& Block::slot(int rank, unsigned parity) const {
  return at<Slot>(slots_at(ranks_) + (2 * size(rank) + parity) * sizeof(Slot));
}

std::byte* Block::window(int rank, std::size_t half) const {
  return &at<std::byte>(windows_at(ranks_) + (2 * size(rank) + half) * kWindowBytes);
}

Mailbox& Block::mailbox(int from, int to) const {
  return at<Mailbox>(mailboxes_at(ranks_) + pair(from, to) * sizeof(Mailbox));
}

std::byte* Block::chunk(int from, int to, std::size_t half) const {
  return &at<std::byte>(chunks_at(ranks_) + (2 * pair(from, to) + half) * chunk_bytes());
}

}  // namespace lockstep::comm::shm
