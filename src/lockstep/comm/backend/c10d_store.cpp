// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/backend/c10d_store.h"

#include <utility>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::comm {

namespace {
std::vector<std::uint8_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }
}  // namespace

C10dStore::C10dStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix, std::string name)
    : store_(std::move(store)), prefix_(std::move(prefix)), name_(std::move(name)) {}

template <typename Body>
auto C10dStore::guarded(const Body& body) const {
  try {
    return body();
  } catch (const std::exception& error) {
    throw Error({.fault = Fault::Peer,
                 .where = {.subject = name_},
                 .problem = "the process that serves the store is gone",
                 .cause = first_line(error.what()),
                 .next = "Look for the first error of the launcher or of rank 0, which serve it"});
  }
}

void C10dStore::set(const std::string& key, std::string_view value) {
  guarded([&] { store_->set(prefix_ + key, bytes_of(value)); });
}

std::optional<std::string> C10dStore::get(const std::string& key) {
  const std::string whole = prefix_ + key;
  return guarded([&]() -> std::optional<std::string> {
    if (!store_->check({whole}))
      return std::nullopt;
    return text_of(store_->get(whole));
  });
}

std::optional<std::vector<std::string>> C10dStore::get_all(const std::vector<std::string>& keys) {
  std::vector<std::string> whole;
  for (const std::string& key : keys)
    whole.push_back(prefix_ + key);
  return guarded([&]() -> std::optional<std::vector<std::string>> {
    if (!store_->check(whole))
      return std::nullopt;
    std::vector<std::string> values;
    if (store_->hasExtendedApi()) {
      for (const auto& value : store_->multiGet(whole))
        values.push_back(text_of(value));
    } else {
      for (const std::string& key : whole)
        values.push_back(text_of(store_->get(key)));
    }
    return values;
  });
}

std::int64_t C10dStore::add(const std::string& key, std::int64_t amount) {
  return guarded([&] { return store_->add(prefix_ + key, amount); });
}

std::string C10dStore::set_once(const std::string& key, std::string_view value) {
  return guarded([&] { return text_of(store_->compareSet(prefix_ + key, {}, bytes_of(value))); });
}

std::shared_ptr<Store> C10dStore::connect_again() {
  return guarded([&] { return std::make_shared<C10dStore>(store_->clone(), prefix_, name_); });
}

std::shared_ptr<Store> store_in_memory() {
  return std::make_shared<C10dStore>(c10::make_intrusive<c10d::HashStore>(), "", "store in memory");
}

}  // namespace lockstep::comm
