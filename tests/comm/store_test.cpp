// SPDX-License-Identifier: Apache-2.0
// Reaching the store that another process serves.
#include "lockstep/comm/backend/store.h"

#include <arpa/inet.h>
#include <chrono>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::test {
namespace {

/// A port of 127.0.0.1 that takes no more connections, and does not refuse them: as a machine behind a filter.
class SilentPort {
 public:
  SilentPort() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    sockets_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(sockets_[0], reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(sockets_[0], 0), 0);
    socklen_t length = sizeof address;
    ::getsockname(sockets_[0], reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
    for (int i = 0; i < 8; ++i) {
      sockets_.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      ::connect(sockets_.back(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    }
  }
  SilentPort(const SilentPort&) = delete;
  SilentPort& operator=(const SilentPort&) = delete;
  ~SilentPort() {
    for (const int socket : sockets_)
      ::close(socket);
  }
  int port() const { return port_; }

 private:
  std::vector<int> sockets_;
  int port_ = 0;
};

TEST(Store, GivesUpAtItsDeadlineWhereNothingAnswersNorRefuses) {
  const SilentPort silent;
  for (const int milliseconds : {300, 1200}) {
    const std::chrono::milliseconds timeout(milliseconds);
    const auto start = std::chrono::steady_clock::now();
    try {
      comm::connect_store({.host = "127.0.0.1", .port = silent.port()}, "p/", timeout);
      ADD_FAILURE() << "connected";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::Environment) << error.what();
      EXPECT_NE(std::string(error.what()).find("nothing answered"), std::string::npos);
    }
    const auto taken = std::chrono::steady_clock::now() - start;
    EXPECT_GE(taken, timeout);
    EXPECT_LT(taken, timeout + std::chrono::seconds(1));
  }
}

TEST(Store, IsFoundThroughANameWithSeveralAddresses) {
  const auto timeout = std::chrono::seconds(5);
  int port = 0;
  {
    const SilentPort free;
    port = free.port();
  }
  const auto served = comm::serve_store({.host = "127.0.0.1", .port = port}, "p/", timeout);
  served->set("key", "value 7");
  const auto reached = comm::connect_store({.host = "localhost", .port = port}, "p/", timeout);
  EXPECT_EQ(reached->get("key"), "value 7");
}

}  // namespace
}  // namespace lockstep::test
