// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

/// Cuts a stream of bytes into whole lines. A carriage return ends a line too (progress bars), and so does 1 MiB without an end.
class LineCutter {
 public:
  using Take = std::function<void(std::string_view line)>;  ///< without its end

  void feed(std::string_view bytes, const Take& take);
  /// What was left without an end, as a line.
  void finish(const Take& take);

 private:
  std::string rest_;
};

/// The last lines of a stream.
class Tail {
 public:
  explicit Tail(std::size_t most) : most_(most) {}
  void add(std::string_view line);
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::size_t most_;
  std::deque<std::string> lines_;
};

}  // namespace lockstep::launch
