// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/comm/shm/block.h"
#include "lockstep/comm/shm/member.h"
#include "lockstep/comm/shm/waiting.h"

namespace lockstep::comm::shm {

/// One rank's transfers with single peers. Between two ranks they come in order; different receivers do not wait for each
/// other, because each has a thread of its own, made with its first letter.
///
/// The receiver compares the texts before it copies anything. A sender is done when the receiver has accepted the letter and the
/// last bytes are in its mailbox; a refusal reaches both sides.
/// Errors   Peer: the other side did not come in time. Stopped. After either the object can only be destroyed.
/// Threads  send() any one; receive() any one, another.
class Post {
 public:
  struct Letter {
    std::span<const std::byte> bytes;
    std::string text;  ///< type, shape, subject: what both sides must give alike
    std::shared_ptr<void>
        keep;  ///< owns the bytes; the caller may let go of them before the letter is gone
  };

  Post(std::shared_ptr<Block> block, int rank, Patience patience);
  ~Post();
  Post(const Post&) = delete;
  Post& operator=(const Post&) = delete;

  /// Returns at once. The future ends when the bytes may be written again, with a difference that the receiver found, or none.
  std::future<std::optional<Difference>> send(int to, Letter letter);
  /// Blocks until the bytes are here.
  std::optional<Difference> receive(int from, std::span<std::byte> bytes, const std::string& text);

 private:
  struct Sealed {
    Letter letter;
    std::promise<std::optional<Difference>> done;
  };
  struct Courier {
    std::deque<Sealed> queue;
    std::uint32_t events = 0;  // posted so far
    std::thread thread;
  };

  void deliver(int to, Courier& courier);
  std::optional<Difference> hand_over(int to, std::uint32_t& events, const Letter& letter);
  void wait(Counter& counter, std::uint32_t target, int other);

  std::shared_ptr<Block> block_;  // shared with the member of this rank
  const int rank_;
  Patience patience_;
  std::vector<std::uint32_t> taken_;  // by sender
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Courier> couriers_;  // by receiver
  std::atomic<bool> closing_ = false;
};

}  // namespace lockstep::comm::shm
