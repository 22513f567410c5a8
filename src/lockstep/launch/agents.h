// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <poll.h>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "lockstep/launch/fd.h"

namespace lockstep::launch {

/// The launcher's end of one rank's line: a listening socket in the abstract namespace and what connected to it. The protocol is
/// that of base/agent.h. A name a rank, so that what a rank says before it knows its rank is still its own.
class RankLine {
 public:
  using Take = std::function<void(const nlohmann::json& message)>;

  explicit RankLine(const std::string& name);

  void add_polls(std::vector<pollfd>& polls) const;
  /// Takes what is there, without waiting. Lines that are no message of ours are dropped.
  void pump(const Take& take);

 private:
  struct Connection {
    Fd fd;
    std::string rest;
  };
  void accept_all();
  static bool read_all(Connection& connection, const Take& take);
  Fd listener_;
  std::vector<Connection> connections_;
};

}  // namespace lockstep::launch
