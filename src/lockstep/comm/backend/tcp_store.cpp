// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/comm/backend/c10d_store.h"

namespace lockstep::comm {

namespace {

using Clock = std::chrono::steady_clock;

std::string name_of(const StoreAddress& address) { return cat(address.host, ":", address.port); }

Error address_error(const StoreAddress& address,
                    std::string problem,
                    std::string cause,
                    std::string next) {
  return Error({.fault = Fault::Environment,
                .where = {.subject = cat("MASTER_ADDR:MASTER_PORT ", name_of(address))},
                .problem = std::move(problem),
                .cause = std::move(cause),
                .next = std::move(next)});
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (fd_ >= 0)
      ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses resolve(const StoreAddress& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(address.host.c_str(), cat(address.port).c_str(), &hints, &found);
  if (status != 0) {
    throw address_error(address,
                        "the address does not resolve",
                        ::gai_strerror(status),
                        "Set MASTER_ADDR to a name or number that every node can reach");
  }
  return {found, &::freeaddrinfo};
}

// A listening socket at exactly the address that was typed: loopback stays loopback.
int listen_at(const StoreAddress& address) {
  const Addresses found = resolve(address);
  Socket socket(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(socket.get(), 2048) != 0) {
    const int error = errno;
    throw address_error(
        address,
        error == EADDRINUSE ? cat("port ", address.port, " is in use")
                            : "cannot listen at this address",
        std::strerror(error),
        error == EADDRINUSE
            ? "Choose another MASTER_PORT, or start with `lockstep run`, which takes a free port"
            : "Set MASTER_ADDR to an address of the machine that runs rank 0");
  }
  return socket.release();
}

// Whether somebody accepts at this address within `patience`: a machine that drops what it gets never says no.
bool accepts(const addrinfo& entry, std::chrono::milliseconds patience) {
  const Socket socket(::socket(entry.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(socket.get(), entry.ai_addr, entry.ai_addrlen) == 0)
    return true;
  if (errno != EINPROGRESS)
    return false;
  pollfd wait{.fd = socket.get(), .events = POLLOUT, .revents = 0};
  int error = 0;
  socklen_t length = sizeof error;
  return ::poll(&wait, 1, static_cast<int>(patience.count())) == 1 &&
         ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
}

// Tries every address of the host, each for at most its share of the time that is left, and never longer than 3 s.
bool answers(const StoreAddress& address, Clock::time_point until) {
  const Addresses found = resolve(address);
  int left = 0;
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next)
    ++left;
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next, --left) {
    const auto share =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()) / left;
    if (accepts(*entry,
                std::clamp(share, std::chrono::milliseconds(1), std::chrono::milliseconds(3000))))
      return true;
  }
  return false;
}

std::shared_ptr<Store> open_store(const StoreAddress& address,
                                  const std::string& prefix,
                                  const c10d::TCPStoreOptions& options) {
  try {
    return std::make_shared<C10dStore>(c10::make_intrusive<c10d::TCPStore>(address.host, options),
                                       prefix,
                                       cat("store at ", name_of(address)));
  } catch (const std::exception& error) {
    throw address_error(address,
                        "cannot open the store",
                        first_line(error.what()),
                        "Check that nothing else uses this port and that rank 0 runs");
  }
}

}  // namespace

std::shared_ptr<Store> serve_store(const StoreAddress& address,
                                   const std::string& prefix,
                                   std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(address.port);
  options.isServer = true;
  options.waitWorkers = false;
  options.timeout = timeout;
  options.masterListenFd = listen_at(address);  // the server owns it from here
  log(LogLevel::Info,
      cat("rank 0 serves the store at ", name_of(address), ", on this address only"));
  return open_store(address, prefix, options);
}

std::shared_ptr<Store> connect_store(const StoreAddress& address,
                                     const std::string& prefix,
                                     std::chrono::milliseconds timeout) {
  const auto start = Clock::now();
  auto next_report = start + std::chrono::seconds(3);
  while (!answers(address, start + timeout)) {
    const auto now = Clock::now();
    const double waited = std::chrono::duration<double>(now - start).count();
    if (now - start > timeout) {
      throw address_error(
          address,
          cat("nothing answered for ", human_seconds(waited)),
          "",
          "Start rank 0, which serves the store at this address, or check the address");
    }
    if (now > next_report) {
      log(LogLevel::Warning,
          cat("waiting for the store at ",
              name_of(address),
              " since ",
              human_seconds(waited),
              ": rank 0 or the launcher serves it"));
      next_report = now + std::chrono::seconds(3);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(address.port);
  options.waitWorkers = false;
  options.timeout = timeout;
  return open_store(address, prefix, options);
}

}  // namespace lockstep::comm
