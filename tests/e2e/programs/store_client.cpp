// SPDX-License-Identifier: Apache-2.0
#include "store_client.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace lockstep::test {

namespace {

enum Query : char { kValidate = 0, kAdd = 4, kWait = 6 };
constexpr std::uint32_t kMagic = 0x3C85F7CE;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(9);
}

template <typename Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

std::string text(const std::string& value) {
  return bytes_of(static_cast<std::uint64_t>(value.size())) + value;
}

}  // namespace

StoreClient::StoreClient(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    fail("getaddrinfo");
  fd_ = socket(found->ai_family, SOCK_STREAM, 0);
  const timeval limit{20, 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (connect(fd_, found->ai_addr, found->ai_addrlen) != 0)
    fail("connect");
  freeaddrinfo(found);
  send_all(std::string(1, kValidate) + bytes_of(kMagic));
}

void StoreClient::send_all(const std::string& bytes) const {
  if (send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    fail("send to the store");
}

void StoreClient::receive(void* bytes, std::size_t size) const {
  if (recv(fd_, bytes, size, MSG_WAITALL) != static_cast<ssize_t>(size))
    fail("receive from the store");
}

std::int64_t StoreClient::add(const std::string& key, std::int64_t value) {
  send_all(std::string(1, kAdd) + text(key) + bytes_of(value));
  std::int64_t sum = 0;
  receive(&sum, sizeof sum);
  return sum;
}

void StoreClient::wait(const std::string& key) {
  send_all(std::string(1, kWait) + bytes_of(std::uint64_t{1}) + text(key));
  char answer = 1;
  receive(&answer, 1);
}

void StoreClient::barrier(const std::string& name, int size) {
  if (add(name + "/count", 1) == size)
    add(name + "/open", 1);
  wait(name + "/open");
}

}  // namespace lockstep::test
