// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/pure/process_card.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

namespace lockstep {

ProcessCard own_process_card() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code ignored;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
  return {.host = host.data(), .machine = cat(boot, " ", space), .pid = ::getpid()};
}

std::string machine_of_network() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  std::error_code ignored;
  const std::string space =
      std::filesystem::read_symlink("/proc/thread-self/ns/net", ignored).string();
  return cat(boot, " ", space, " ", ::geteuid());
}

std::string to_json(const ProcessCard& card) {
  return nlohmann::json{{"host", card.host}, {"machine", card.machine}, {"pid", card.pid}}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

ProcessCard process_card_from_json(std::string_view json) {
  const nlohmann::json read = nlohmann::json::parse(json);
  return {.host = read.at("host"), .machine = read.at("machine"), .pid = read.at("pid")};
}

bool is_gone(const ProcessCard& card, const ProcessCard& own) {
  if (card.pid <= 0 || card.machine != own.machine || card.pid == own.pid)
    return false;
  if (::kill(card.pid, 0) != 0 && errno == ESRCH)
    return true;
  // A zombie still has its number: its parent has not looked yet.
  std::ifstream file(cat("/proc/", card.pid, "/stat"));
  std::string stat;
  std::getline(file, stat);
  const std::size_t bracket = stat.rfind(')');
  return bracket != std::string::npos && bracket + 2 < stat.size() &&
         (stat[bracket + 2] == 'Z' || stat[bracket + 2] == 'X');
}

}  // namespace lockstep
