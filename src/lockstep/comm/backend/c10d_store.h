// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lockstep/comm/backend/store.h"

namespace lockstep::comm {

/// Our store over one of c10d's. Included by sources of this folder only.
class C10dStore : public Store {
 public:
  C10dStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix, std::string name);
  void set(const std::string& key, std::string_view value) override;
  std::optional<std::string> get(const std::string& key) override;
  std::optional<std::vector<std::string>> get_all(const std::vector<std::string>& keys) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  std::string set_once(const std::string& key, std::string_view value) override;
  std::shared_ptr<Store> connect_again() override;

  const c10::intrusive_ptr<c10d::Store>& raw() const { return store_; }
  const std::string& prefix() const { return prefix_; }

 private:
  template <typename Body>
  auto guarded(const Body& body) const;
  c10::intrusive_ptr<c10d::Store> store_;
  std::string prefix_;
  std::string name_;  // "store at 127.0.0.1:29500", for messages
};

}  // namespace lockstep::comm
