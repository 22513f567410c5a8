// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/pure/rank_identity.h"

#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

extern char** environ;

namespace lockstep {

namespace {

// The names of one system's variables; the first name that is set counts.
struct NameSet {
  std::string source;
  std::vector<std::string> rank, size, local_rank, local_size;
  std::string how;  // how to start under this system
};

const std::vector<NameSet>& name_sets() {
  static const std::vector<NameSet> sets = {
      {"RANK",
       {"RANK"},
       {"WORLD_SIZE"},
       {"LOCAL_RANK"},
       {"LOCAL_WORLD_SIZE"},
       "Set both RANK and WORLD_SIZE, or neither"},
      {"Open MPI",
       {"OMPI_COMM_WORLD_RANK"},
       {"OMPI_COMM_WORLD_SIZE"},
       {"OMPI_COMM_WORLD_LOCAL_RANK"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE"},
       "Start with mpirun"},
      {"PMI",
       {"PMI_RANK"},
       {"PMI_SIZE"},
       {"MPI_LOCALRANKID"},
       {"MPI_LOCALNRANKS"},
       "Start with mpiexec"},
      {"MVAPICH",
       {"MV2_COMM_WORLD_RANK"},
       {"MV2_COMM_WORLD_SIZE"},
       {"MV2_COMM_WORLD_LOCAL_RANK"},
       {"MV2_COMM_WORLD_LOCAL_SIZE"},
       "Start with mpirun"},
      {"Slurm",
       {"SLURM_PROCID"},
       {"SLURM_NTASKS", "SLURM_NPROCS"},
       {"SLURM_LOCALID"},
       {},
       "Start with srun, or with `lockstep run`"},
  };
  return sets;
}

struct Reader {
  const Variables& variables;
  std::vector<Finding> findings;

  std::optional<std::string> text(const std::string& name) const {
    const auto found = variables.find(name);
    if (found == variables.end() || found->second.empty())
      return std::nullopt;
    return found->second;
  }

  std::optional<int> number(const std::string& name) {
    const auto value = text(name);
    if (!value)
      return std::nullopt;
    const auto parsed = parse_int(trim(*value));
    if (parsed && *parsed >= 0 && *parsed < 10'000'000)
      return static_cast<int>(*parsed);
    findings.push_back({name,
                        cat("is no whole number from 0 up: '", *value, "'"),
                        "Set it to a number, or unset it"});
    return std::nullopt;
  }

  std::optional<int> first_number(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (text(name))
        return number(name);
    }
    return std::nullopt;
  }

  std::string first_set(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      if (text(name))
        return cat(name, "=", *text(name));
    }
    return cat(names.front(), " unset");
  }
};

// "2(x3),1": tasks of each node in turn.
std::optional<int> slurm_local_size(Reader& reader) {
  const auto per_node = reader.text("SLURM_TASKS_PER_NODE");
  const auto node = reader.number("SLURM_NODEID");
  if (!per_node)
    return reader.number("SLURM_NTASKS_PER_NODE");
  int at = 0;
  for (const std::string& run : split(*per_node, ',')) {
    const std::size_t bracket = run.find('(');
    const auto tasks = parse_int(run.substr(0, bracket));
    const auto times = bracket == std::string::npos
                           ? std::optional<std::int64_t>(1)
                           : parse_int(split(run.substr(bracket + 2), ')')[0]);
    if (!tasks || !times)
      return std::nullopt;
    at += static_cast<int>(*times);
    if (node.value_or(0) < at)
      return static_cast<int>(*tasks);
  }
  return std::nullopt;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void check(const RankIdentity& found, Reader& reader) {
  if (found.size < 1)
    reader.findings.push_back(
        {found.source, "says that the world has no ranks", "Set a size of at least 1"});
  if (found.size >= 1 && found.rank >= found.size) {
    reader.findings.push_back({found.source,
                               cat("gives rank ", found.rank, " in a world of ", found.size),
                               "Ranks count from 0"});
  }
  if (found.local_size < 1 || found.local_rank >= found.local_size) {
    reader.findings.push_back(
        {found.source,
         cat("gives local rank ", found.local_rank, " of ", found.local_size, " on this node"),
         "Local ranks count from 0"});
  }
}

std::optional<RankIdentity> read_set(const NameSet& names, Reader& reader) {
  const auto rank = reader.first_number(names.rank);
  const auto size = reader.first_number(names.size);
  if (!rank && !size)
    return std::nullopt;
  if (!rank || !size) {
    if (!reader.findings.empty())
      return std::nullopt;
    if (!rank && *size == 1)
      return std::nullopt;  // one process: no sign of more
    reader.findings.push_back(
        {cat(reader.first_set(names.rank), ", ", reader.first_set(names.size)),
         "tells of more processes, but not which one this is",
         names.how});
    return std::nullopt;
  }
  RankIdentity found{.rank = *rank, .size = *size, .source = names.source};
  const auto local_rank = reader.first_number(names.local_rank);
  const auto local_size =
      names.source == "Slurm" ? slurm_local_size(reader) : reader.first_number(names.local_size);
  const bool one_node =
      is_loopback(reader.text("MASTER_ADDR").value_or("")) || reader.text("SLURM_NNODES") == "1";
  found.local_rank = local_rank.value_or(one_node ? found.rank : 0);
  found.local_size = local_size.value_or(one_node ? found.size : found.local_rank + 1);
  found.local_known = local_rank && local_size;
  check(found, reader);
  return found;
}

// Variables of a pod: they count nodes. A process is a rank by them only where a node has one process.
std::optional<RankIdentity> read_pod(Reader& reader) {
  const auto nodes = reader.number("PET_NNODES");
  const auto node = reader.number("PET_NODE_RANK");
  const auto per_node = reader.text("PET_NPROC_PER_NODE");
  if (!nodes && !node && !per_node)
    return std::nullopt;
  const bool more = (nodes && *nodes > 1) || (per_node && *per_node != "1");
  if (nodes && node && per_node.value_or("1") == "1") {
    RankIdentity found{.rank = *node, .size = *nodes, .source = "PET"};
    check(found, reader);
    return found;
  }
  if (more) {
    reader.findings.push_back({cat("PET_NNODES=",
                                   reader.text("PET_NNODES").value_or(""),
                                   ", PET_NPROC_PER_NODE=",
                                   per_node.value_or("")),
                               "tells of more processes, but not which one this is",
                               "Start with `lockstep run`, which reads these variables"});
  }
  return std::nullopt;
}

std::string printed(const RankIdentity& found) {
  return cat(found.source, " says rank ", found.rank, " of ", found.size);
}

}  // namespace

RankIdentity identify_rank(const Variables& variables) {
  Reader reader{.variables = variables, .findings = {}};
  // Set by a launcher for the processes it starts; what lies around it belongs to the launcher itself.
  const bool launched = reader.text("RANK") && reader.text("WORLD_SIZE") &&
                        (reader.text("TORCHELASTIC_RUN_ID") || reader.text("LOCKSTEP_AGENT"));
  std::vector<RankIdentity> found;
  for (const NameSet& names : name_sets()) {
    if (launched && names.source != "RANK")
      break;
    // mpirun inside an allocation leaves its own daemon's Slurm variables to the ranks.
    if (names.source == "Slurm" && reader.text("OMPI_UNIVERSE_SIZE") && !found.empty())
      break;
    if (auto set = read_set(names, reader))
      found.push_back(*set);
    if (names.source == "RANK" && !launched) {
      if (auto pod = read_pod(reader))
        found.push_back(*pod);
    }
  }
  for (std::size_t i = 1; i < found.size(); ++i) {
    if (found[i].rank != found[0].rank || found[i].size != found[0].size) {
      reader.findings.push_back({"two launchers",
                                 cat("disagree: ", printed(found[0]), ", ", printed(found[i])),
                                 "Unset the variables of the one that did not start this process"});
    }
  }
  throw_findings(Fault::Environment, "which rank this process is cannot be told", reader.findings);
  RankIdentity identity = found.empty() ? RankIdentity{} : found[0];
  const std::string prefix = identity.source == "PET" ? "PET_" : "";
  identity.master_address = reader.text(prefix + "MASTER_ADDR").value_or("");
  identity.master_port = reader.number(prefix + "MASTER_PORT").value_or(0);
  identity.attempt = reader.number("TORCHELASTIC_RESTART_COUNT").value_or(0);
  const std::string agent_store = reader.text("TORCHELASTIC_USE_AGENT_STORE").value_or("");
  identity.agent_store = agent_store == "True" || agent_store == "true" || agent_store == "1";
  if (identity.master_port > 65535)
    reader.findings.push_back(
        {"MASTER_PORT", cat("is no port: ", identity.master_port), "Take one from 1 to 65535"});
  throw_findings(
      Fault::Environment, "the meeting place of the ranks cannot be told", reader.findings);
  return identity;
}

Variables process_variables() {
  Variables variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string assignment = *entry;
    const std::size_t equals = assignment.find('=');
    if (equals != std::string::npos)
      variables[assignment.substr(0, equals)] = assignment.substr(equals + 1);
  }
  return variables;
}

}  // namespace lockstep
