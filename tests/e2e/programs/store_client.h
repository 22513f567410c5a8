// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::test {

/// A client of c10d's TCPStore without libtorch, so that a test can start many ranks cheaply. Wire format: libtorch 2.13,
/// TCPStore.cpp. Every call waits at most 20 s and exits the program with a message when it fails.
class StoreClient {
 public:
  StoreClient(const std::string& host, int port);
  std::int64_t add(const std::string& key, std::int64_t value);
  void wait(const std::string& key);
  /// All `size` ranks come here.
  void barrier(const std::string& name, int size);

 private:
  void send_all(const std::string& bytes) const;
  void receive(void* bytes, std::size_t size) const;
  int fd_ = -1;
};

}  // namespace lockstep::test
