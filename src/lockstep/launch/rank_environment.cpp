// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/rank_environment.h"

#include <map>

#include "lockstep/base/text.h"

namespace lockstep::launch {

std::vector<std::string> rank_environment(const Options& options,
                                          const RankStart& start,
                                          const std::vector<std::string>& inherited) {
  std::map<std::string, std::string> values;
  for (const std::string& assignment : inherited) {
    const std::size_t equals = assignment.find('=');
    if (equals != std::string::npos)
      values[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  for (const Assignment& assignment : options.environment)
    values[assignment.name] = assignment.value;

  const std::string rank = cat(rank_of(options, start.local_rank));
  const std::string size = cat(world_size(options));
  const std::pair<const char*, std::string> given[] = {
      {"RANK", rank},
      {"LOCAL_RANK", cat(start.local_rank)},
      {"WORLD_SIZE", size},
      {"LOCAL_WORLD_SIZE", cat(options.local_ranks)},
      {"GROUP_RANK", cat(options.node_rank)},
      {"GROUP_WORLD_SIZE", cat(options.nodes)},
      {"ROLE_RANK", rank},
      {"ROLE_NAME", options.role},
      {"ROLE_WORLD_SIZE", size},
      {"MASTER_ADDR", options.address},
      {"MASTER_PORT", cat(start.port)},
      {"TORCHELASTIC_RESTART_COUNT", cat(start.attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", cat(options.max_restarts)},
      {"TORCHELASTIC_RUN_ID", options.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},
      {"TORCHELASTIC_ERROR_FILE", start.error_file},
      {"LOCKSTEP_AGENT", start.agent},
      {"LOCKSTEP_JOB", start.job},
  };
  for (const auto& [name, value] : given)
    values[name] = value;
  values.try_emplace("OMP_NUM_THREADS", cat(options.threads));
  values.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (options.rendezvous_timeout) {
    values["LOCKSTEP_RENDEZVOUS_TIMEOUT_SECONDS"] = cat(options.rendezvous_timeout->count());
  }

  std::vector<std::string> assignments;
  for (const auto& [name, value] : values)
    assignments.push_back(cat(name, "=", value));
  return assignments;
}

}  // namespace lockstep::launch
