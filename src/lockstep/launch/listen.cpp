// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/listen.h"

#include <cerrno>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses resolve(const std::string& address, const std::string& port, int& failure) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  failure = getaddrinfo(address.c_str(), port.c_str(), &hints, &found);
  return {failure == 0 ? found : nullptr, freeaddrinfo};
}

[[noreturn]] void refuse(const std::string& address, std::optional<int> port, int code) {
  const std::string cause = std::generic_category().message(code);
  if (code == EADDRINUSE) {
    throw Error(
        {.fault = Fault::Environment,
         .where = {.subject = cat("--master-port ", port.value_or(0))},
         .problem = cat("port ", port.value_or(0), " of ", address, " is in use"),
         .cause = cause,
         .next =
             "Stop the program that holds it, give another --master-port, or leave the port out: "
             "a job on one node takes a free one"});
  }
  if (code == EADDRNOTAVAIL) {
    throw Error(
        {.fault = Fault::Environment,
         .where = {.subject = cat("--master-addr ", address)},
         .problem = "this machine does not have the address, and node 0 serves the store there",
         .cause = cause,
         .next = "Give an address of the machine of node rank 0, or start this node with its "
                 "--node-rank"});
  }
  throw Error({.fault = Fault::Environment,
               .where = {.subject = cat("--master-addr ", address)},
               .problem = cat("cannot listen on port ", port.value_or(0)),
               .cause = cause,
               .next = "Give another --master-addr or --master-port"});
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  if (address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

Listener listen_on(const std::string& address, std::optional<int> port) {
  int failure = 0;
  const Addresses addresses = resolve(address, cat(port.value_or(0)), failure);
  if (failure != 0) {
    throw Error({.fault = Fault::Environment,
                 .where = {.subject = cat("--master-addr ", address)},
                 .problem = "the address does not resolve",
                 .cause = gai_strerror(failure),
                 .next = "Give a numeric address, or a name that this machine can resolve"});
  }
  int code = 0;
  for (const addrinfo* entry = addresses.get(); entry != nullptr; entry = entry->ai_next) {
    Fd fd(socket(entry->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (fd.open() && setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd.get(), entry->ai_addr, entry->ai_addrlen) == 0 &&
        listen(fd.get(), SOMAXCONN) == 0) {
      const int bound = port_of(fd.get());
      return {std::move(fd), bound};
    }
    if (code == 0 || errno == EADDRINUSE)
      code = errno;
  }
  refuse(address, port, code);
}

bool is_loopback(const std::string& address) {
  int failure = 0;
  const Addresses addresses = resolve(address, "0", failure);
  if (addresses == nullptr)
    return false;
  const sockaddr* first = addresses->ai_addr;
  if (first->sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(first)->sin6_addr) != 0;
  return (ntohl(reinterpret_cast<const sockaddr_in*>(first)->sin_addr.s_addr) >> 24) == 127;
}

}  // namespace lockstep::launch
