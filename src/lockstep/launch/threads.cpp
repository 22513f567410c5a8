// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/threads.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <set>
#include <string>
#include <utility>

#include "lockstep/base/env.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {

namespace {

std::optional<int> number_in(const std::string& path) {
  std::ifstream file(path);
  int value = 0;
  if (file >> value)
    return value;
  return std::nullopt;
}

std::optional<int> quota_of_control_group() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(file >> quota >> period) || period <= 0)
    return std::nullopt;  // "max 100000" is no number
  return std::max(1, static_cast<int>(std::ceil(quota / period)));
}

}  // namespace

int threads_per_rank(int physical_cores, int local_ranks, std::optional<int> user) {
  if (user)
    return *user;
  return std::max(1, physical_cores / std::max(1, local_ranks));
}

int physical_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return 1;
  std::set<std::pair<int, int>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed))
      continue;
    const std::string folder = cat("/sys/devices/system/cpu/cpu", cpu, "/topology/");
    const auto package = number_in(folder + "physical_package_id");
    const auto core = number_in(folder + "core_id");
    cores.insert(core ? std::pair(package.value_or(0), *core) : std::pair(-1, cpu));
  }
  const int count = std::max(1, static_cast<int>(cores.size()));
  return std::min(count, quota_of_control_group().value_or(count));
}

int visible_devices() {
  if (const auto visible = env("CUDA_VISIBLE_DEVICES")) {
    int count = 0;
    for (const std::string& item : split(*visible, ',')) {
      if (trim(item).empty() || trim(item) == "-1")
        break;  // as the driver does: what follows a bad entry is not seen
      ++count;
    }
    return count;
  }
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("nvidia") && parse_int(name.substr(6)).has_value())
      ++count;
  }
  return count;
}

}  // namespace lockstep::launch
