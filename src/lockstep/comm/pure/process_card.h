// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Which process a rank is, so that others on the same machine can see whether it still lives.
struct ProcessCard {
  std::string host;     ///< host name, for people
  std::string machine;  ///< boot and process namespace: equal only where the pid means the same
  int pid = 0;
};

ProcessCard own_process_card();
/// The machine as far as Unix sockets reach: equal texts name one boot, network namespace and user.
std::string machine_of_network();
std::string to_json(const ProcessCard& card);
ProcessCard process_card_from_json(std::string_view json);

/// True when the process ended. False also when this cannot be told from here (another machine).
bool is_gone(const ProcessCard& card, const ProcessCard& own);

}  // namespace lockstep
