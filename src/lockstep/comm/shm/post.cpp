// SPDX-License-Identifier: Apache-2.0
// A letter is a head and its chunks; both sides count them, modulo 2^32. Chunk i lies in half i % 2 of the mailbox.
#include "lockstep/comm/shm/post.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::comm::shm {

namespace {
std::uint32_t count_chunks(std::size_t bytes, std::size_t size) {
  return static_cast<std::uint32_t>((bytes + size - 1) / size);
}
}  // namespace

Post::Post(std::shared_ptr<Block> block, int rank, Patience patience)
    : block_(std::move(block)),
      rank_(rank),
      patience_(std::move(patience)),
      taken_(static_cast<std::size_t>(block_->ranks())) {
  patience_.ranks = block_->ranks();
  patience_.stop = [this, stop = std::move(patience_.stop)] {
    return closing_ || (stop && stop());
  };
}

Post::~Post() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  for (auto& [to, courier] : couriers_)
    courier.thread.join();
}

std::future<std::optional<Difference>> Post::send(int to, Letter letter) {
  Sealed sealed{.letter = std::move(letter), .done = {}};
  auto done = sealed.done.get_future();
  const std::lock_guard lock(mutex_);
  Courier& courier = couriers_[to];
  courier.queue.push_back(std::move(sealed));
  if (!courier.thread.joinable())
    courier.thread = std::thread([this, to, &courier] { deliver(to, courier); });
  changed_.notify_all();
  return done;
}

void Post::deliver(int to, Courier& courier) {
  for (;;) {
    Sealed sealed;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !courier.queue.empty(); });
      if (courier.queue.empty())
        return;
      sealed = std::move(courier.queue.front());
      courier.queue.pop_front();
    }
    try {
      sealed.done.set_value(hand_over(to, courier.events, sealed.letter));
    } catch (...) {
      sealed.done.set_exception(std::current_exception());
    }
  }
}

void Post::wait(Counter& counter, std::uint32_t target, int other) {
  switch (wait_for(counter, target, patience_)) {
    case Waited::Ready: return;
    case Waited::Stopped: throw Stopped();
    case Waited::Late: break;
  }
  throw Error(
      {.fault = Fault::Peer,
       .problem = cat("group rank ",
                      other,
                      " did not come within ",
                      human_seconds(std::chrono::duration<double>(patience_.timeout).count())),
       .next = "Look at what it does there, or raise comm.timeout_seconds"});
}

std::optional<Difference> Post::hand_over(int to, std::uint32_t& events, const Letter& letter) {
  Mailbox& box = block_->mailbox(rank_, to);
  const auto refusal = [&]() -> std::optional<Difference> {
    if (box.refused.load(std::memory_order_acquire) == 0)
      return std::nullopt;
    return Difference{
        .rank_a = rank_, .rank_b = to, .a = letter.text, .b = box.receiver_text.str()};
  };
  wait(box.taken, events, to);  // the letter before is out of the box
  if (auto refused = refusal())
    return refused;
  box.bytes = letter.bytes.size();
  box.text.set(letter.text);
  box.posted.set(++events);
  const std::uint32_t head = events;
  const std::size_t size = block_->chunk_bytes();
  const std::uint32_t chunks = count_chunks(letter.bytes.size(), size);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    if (chunk >= 2) {
      wait(box.taken, events - 1, to);  // the chunk before the last one
      if (auto refused = refusal())
        return refused;
    }
    const std::size_t begin = chunk * size;
    std::memcpy(block_->chunk(rank_, to, chunk % 2),
                letter.bytes.data() + begin,
                std::min(size, letter.bytes.size() - begin));
    box.posted.set(++events);
  }
  wait(box.taken, head, to);
  return refusal();
}

std::optional<Difference> Post::receive(int from,
                                        std::span<std::byte> bytes,
                                        const std::string& text) {
  Mailbox& box = block_->mailbox(from, rank_);
  std::uint32_t& events = taken_[static_cast<std::size_t>(from)];
  wait(box.posted, events + 1, from);
  Text mine;
  mine.set(text);
  if (!box.text.same_as(mine) || box.bytes != bytes.size()) {
    const Difference found{.rank_a = from, .rank_b = rank_, .a = box.text.str(), .b = text};
    box.receiver_text = mine;
    box.refused.store(1, std::memory_order_release);
    // The letter counts as taken, so that a sender that waits in the middle of it looks.
    box.taken.set(events + 1 + count_chunks(box.bytes, block_->chunk_bytes()));
    return found;
  }
  box.taken.set(++events);
  const std::size_t size = block_->chunk_bytes();
  const std::uint32_t chunks = count_chunks(bytes.size(), size);
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    wait(box.posted, events + 1, from);
    const std::size_t begin = chunk * size;
    std::memcpy(bytes.data() + begin,
                block_->chunk(from, rank_, chunk % 2),
                std::min(size, bytes.size() - begin));
    box.taken.set(++events);
  }
  return std::nullopt;
}

}  // namespace lockstep::comm::shm
