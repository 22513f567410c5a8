// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/agent.h"

#include <cstring>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/base/env.h"

namespace lockstep {

namespace {
// What a process printed may hold any bytes; a message must still be JSON.
std::string dump(const nlohmann::json& message) {
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}
}  // namespace

Agent Agent::from_environment() {
  const auto name = env("LOCKSTEP_AGENT");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (!name || name->size() + 1 >= sizeof address.sun_path)
    return Agent(-1);
  // A name in the abstract namespace: nothing lies in a folder and nothing is left behind.
  std::memcpy(address.sun_path + 1, name->data(), name->size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name->size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return Agent(-1);
  const timeval limit{1, 0};  // a launcher that is stuck must not hold a rank
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0)
    return Agent(fd);
  ::close(fd);
  return Agent(-1);
}

Agent::Agent(Agent&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

Agent& Agent::operator=(Agent&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Agent::~Agent() {
  if (fd_ >= 0)
    ::close(fd_);
}

void Agent::joined(int rank, int world_size) {
  send(
      dump({{"event", "joined"}, {"rank", rank}, {"world_size", world_size}, {"pid", ::getpid()}}));
}

void Agent::phase(std::string_view phase) { send(dump({{"event", "phase"}, {"phase", phase}})); }

void Agent::failed(std::string_view fault,
                   std::string_view error,
                   std::string_view last_operation,
                   bool consequence) {
  send(dump({{"event", "failed"},
             {"fault", fault},
             {"error", error},
             {"last_operation", last_operation},
             {"consequence", consequence}}));
}

void Agent::finished() { send(dump({{"event", "finished"}})); }

void Agent::send(const std::string& line) {
  if (fd_ < 0)
    return;
  for (std::size_t sent = 0; sent < line.size();) {
    const ssize_t size = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (size <= 0)
      return;
    sent += static_cast<std::size_t>(size);
  }
}

}  // namespace lockstep
