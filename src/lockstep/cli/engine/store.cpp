// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <array>
#include <csignal>
#include <memory>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/engine/commands.h"

namespace lockstep::cli {

namespace {

struct Bound {
  std::string host;
  std::uint16_t port = 0;
};

Bound bound_address(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = "--fd"},
                 .problem = cat("file descriptor ", fd, " is not a socket"),
                 .next = "Let lockstep run start the store"});
  }
  if (address.ss_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(&address);
    inet_ntop(AF_INET6, &six->sin6_addr, text.data(), text.size());
    return {text.data(), ntohs(six->sin6_port)};
  }
  const auto* four = reinterpret_cast<const sockaddr_in*>(&address);
  inet_ntop(AF_INET, &four->sin_addr, text.data(), text.size());
  return {text.data(), ntohs(four->sin_port)};
}

// Serves c10d's store on a socket that the launcher bound, until it is killed: the port is never unowned, and the store
// outlives every rank.
int serve(int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A signal to every process of the job asks the ranks to save, and they need the store for that.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1})
    ::signal(signal, SIG_IGN);
  c10d::TCPStoreOptions options;
  const Bound bound = bound_address(fd);
  options.port = bound.port;
  options.isServer = true;
  options.waitWorkers = false;
  options.masterListenFd = fd;
  const c10d::TCPStore store(bound.host, options);
  for (;;)
    pause();
}

}  // namespace

std::function<int()> make_store(CLI::App& app) {
  const auto fd = std::make_shared<int>(-1);
  app.add_option("--fd", *fd, "the listening socket")->required();
  return [fd] { return serve(*fd); };
}

}  // namespace lockstep::cli
