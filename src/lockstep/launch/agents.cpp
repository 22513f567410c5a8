// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/agents.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>
#include <system_error>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::launch {

RankLine::RankLine(const std::string& name)
    : listener_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  LOCKSTEP_ASSERT(name.size() + 1 < sizeof address.sun_path);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!listener_.open() ||
      bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      listen(listener_.get(), 16) != 0) {
    throw Error({.fault = Fault::Environment,
                 .problem = "the launcher cannot open its line to a rank",
                 .cause = std::generic_category().message(errno),
                 .next = "Free file descriptors (ulimit -n)"});
  }
}

void RankLine::add_polls(std::vector<pollfd>& polls) const {
  polls.push_back({listener_.get(), POLLIN, 0});
  for (const Connection& connection : connections_)
    polls.push_back({connection.fd.get(), POLLIN, 0});
}

void RankLine::accept_all() {
  for (;;) {
    Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.open())
      return;
    ucred peer{};
    socklen_t length = sizeof peer;
    const bool known = getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;
    if (known && (peer.uid == getuid() || peer.uid == 0))
      connections_.push_back({std::move(fd), {}});
  }
}

bool RankLine::read_all(Connection& connection, const Take& take) {
  for (;;) {
    std::array<char, 4096> buffer{};
    const ssize_t size = read(connection.fd.get(), buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR)
      continue;
    if (size <= 0)
      return size < 0 && errno == EAGAIN;
    connection.rest.append(buffer.data(), static_cast<std::size_t>(size));
    for (std::size_t end = 0; (end = connection.rest.find('\n')) != std::string::npos;) {
      const nlohmann::json message =
          nlohmann::json::parse(connection.rest.substr(0, end), nullptr, false);
      connection.rest.erase(0, end + 1);
      if (message.is_object())
        take(message);
    }
  }
}

void RankLine::pump(const Take& take) {
  accept_all();
  std::erase_if(connections_, [&](Connection& connection) { return !read_all(connection, take); });
}

}  // namespace lockstep::launch
