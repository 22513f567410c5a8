// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::comm {

/// The job's shared table of texts: rendezvous, agreement before a first call, states of ranks, the first failure.
/// No function waits for another rank; whoever waits polls, so that deadlines and failures of others are seen.
/// Errors   Peer when the server of the table is gone.
/// Threads  Any; calls over one connection come one after the other.
class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, std::string_view value) = 0;
  virtual std::optional<std::string> get(const std::string& key) = 0;
  /// The values of all keys, or none when one is missing. One round trip when nothing is missing.
  virtual std::optional<std::vector<std::string>> get_all(const std::vector<std::string>& keys) = 0;
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// The first writer's value stays; returns what stands there now.
  virtual std::string set_once(const std::string& key, std::string_view value) = 0;
  /// A connection of its own to the same table, for another thread.
  virtual std::shared_ptr<Store> connect_again() = 0;
};

struct StoreAddress {
  std::string host;  ///< as typed by the user; used and shown as it is
  int port = 0;
};

/// A table in this process's memory, for threads as ranks.
std::shared_ptr<Store> store_in_memory();

/// Serves a table at exactly this address and connects to it. `prefix` goes before every key.
/// Errors: Environment when the port is in use or the address is not one of this machine.
std::shared_ptr<Store> serve_store(const StoreAddress& address,
                                   const std::string& prefix,
                                   std::chrono::milliseconds timeout);

/// Connects to a table that somebody serves, or will soon: tries until `timeout`. Errors: Environment after that.
std::shared_ptr<Store> connect_store(const StoreAddress& address,
                                     const std::string& prefix,
                                     std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
