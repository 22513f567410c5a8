// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "lockstep/launch/fd.h"

namespace lockstep::launch {

struct Listener {
  Fd fd;
  int port = 0;
};

/// A listening socket on exactly `address`; without a port on a free one. The port is owned from here on: the open socket is
/// handed to the store, nothing is bound a second time.
/// Throws Environment: the name does not resolve, the address is not this machine's, the port is in use.
Listener listen_on(const std::string& address, std::optional<int> port);

/// Whether `address` is typed as, or resolves to, a loopback address. False where it does not resolve.
bool is_loopback(const std::string& address);

}  // namespace lockstep::launch
