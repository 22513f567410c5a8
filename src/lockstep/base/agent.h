// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// A rank's line to the launcher that started it: one JSON text a line over the Unix socket that LOCKSTEP_AGENT names.
///
/// The launcher judges a rank by its exit status alone until the rank said `joined`; from then on a rank that leaves without
/// `finished` has failed, whatever its status. Without the variable (another launcher, or none) every call does nothing.
/// Calls never throw and never block for long: a launcher that is gone is the guard's business.
class Agent {
 public:
  static Agent from_environment();
  Agent(Agent&& other) noexcept;
  Agent& operator=(Agent&& other) noexcept;
  ~Agent();

  bool connected() const { return fd_ >= 0; }
  void joined(int rank, int world_size);
  void phase(std::string_view phase);
  /// `error`: the text for people. `fault`: name_of(fault). `consequence`: this rank failed because another one did.
  void failed(std::string_view fault,
              std::string_view error,
              std::string_view last_operation,
              bool consequence);
  void finished();

 private:
  explicit Agent(int fd) : fd_(fd) {}
  void send(const std::string& line);
  int fd_ = -1;
};

}  // namespace lockstep
