// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/request.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/endpoint.h"
#include "lockstep/launch/listen.h"
#include "lockstep/launch/threads.h"

namespace lockstep::launch {

namespace {

constexpr int kDefaultPortOfNodes =
    29500;  // torchrun's, where the ranks of several nodes must agree on one

[[noreturn]] void refuse(Fault fault,
                         const std::string& flag,
                         const std::string& problem,
                         const std::string& next) {
  throw Error({.fault = fault, .where = {.subject = flag}, .problem = problem, .next = next});
}

int nodes_of(const std::string& text) {
  const std::vector<std::string> ends = split(text, ':');
  const auto least = parse_int(ends.front());
  const auto most = parse_int(ends.back());
  if (!least || !most || *least < 1 || *most < *least || ends.size() > 2) {
    refuse(Fault::Usage,
           "--nnodes",
           cat("'", text, "' is no number of nodes"),
           "Give a number such as 2");
  }
  if (*least != *most) {
    refuse(Fault::Config,
           "--nnodes",
           cat("a job whose number of nodes may change (", text, ") is not built"),
           "Give one number; a job on a fixed number of nodes is built");
  }
  return static_cast<int>(*least);
}

void check_backend(const std::string& backend) {
  if (backend.empty() || backend == "static" || backend == "c10d")
    return;
  const std::vector<std::string> known = {"static", "c10d"};
  refuse(Fault::Config,
         "--rdzv-backend",
         cat("'", backend, "' is not built", did_you_mean(backend, known)),
         "Use static or c10d: the launcher serves the store itself");
}

std::optional<std::chrono::seconds> timeout_of(const std::string& conf) {
  // torchrun's other keys tune its agents' rendezvous, which this launcher does not have.
  static const std::vector<std::string> kKeys = {"timeout",
                                                 "join_timeout",
                                                 "last_call_timeout",
                                                 "close_timeout",
                                                 "heartbeat",
                                                 "keep_alive_interval",
                                                 "keep_alive_max_attempt",
                                                 "read_timeout",
                                                 "store_type",
                                                 "is_host"};
  std::optional<std::chrono::seconds> timeout;
  for (const std::string& item : split(conf, ',')) {
    if (trim(item).empty())
      continue;
    const std::size_t equals = item.find('=');
    const std::string key(trim(item.substr(0, equals)));
    if (equals == std::string::npos || std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
      refuse(Fault::Usage,
             "--rdzv-conf",
             cat("'", item, "' is no known key=value", did_you_mean(key, kKeys)),
             "Give timeout=SECONDS");
    }
    if (key != "timeout") {
      log(LogLevel::Warning,
          cat("--rdzv-conf ",
              key,
              " has no meaning here and is left out; timeout is the key that has"));
      continue;
    }
    const auto seconds = parse_int(trim(item.substr(equals + 1)));
    if (!seconds || *seconds < 1) {
      refuse(Fault::Usage,
             "--rdzv-conf",
             cat("'", item, "' is no number of seconds"),
             "Give timeout=SECONDS, at least 1");
    }
    timeout = std::chrono::seconds(*seconds);
  }
  return timeout;
}

// A rank that is not on this node is a typing error: its lines would go nowhere.
StreamChoice streams_of_ranks(const std::string& text, const std::string& flag, int local_ranks) {
  StreamChoice choice = parse_streams(text, flag);
  if (!choice.by_rank.empty() && choice.by_rank.rbegin()->first >= local_ranks) {
    refuse(Fault::Usage,
           flag,
           cat("there is no local rank ", choice.by_rank.rbegin()->first),
           cat("Name local ranks from 0 to ", local_ranks - 1));
  }
  return choice;
}

std::string without_brackets(const std::string& address) {
  const bool bracketed = address.size() > 2 && address.front() == '[' && address.back() == ']';
  return bracketed ? address.substr(1, address.size() - 2) : address;
}

// Where the ranks meet, from --master-addr and --master-port or from --rdzv-endpoint.
Endpoint meeting_point(const Request& request, int nodes) {
  const bool by_parts = !request.address.empty() || !request.port.empty();
  const bool by_endpoint = !request.endpoint.empty();
  if (request.standalone && (by_parts || by_endpoint || nodes > 1)) {
    refuse(Fault::Usage,
           "--standalone",
           "it means one node on a free port of its own",
           "Leave out --standalone, or --nnodes, --master-addr, --master-port and --rdzv-endpoint");
  }
  if (by_parts && by_endpoint) {
    refuse(Fault::Usage,
           "--rdzv-endpoint",
           "the address is given twice, also by --master-addr or --master-port",
           "Give one of the two");
  }
  if (by_endpoint)
    return parse_endpoint(request.endpoint, "--rdzv-endpoint");
  if (request.port.empty()) {
    if (request.address.empty())
      return {.host = "127.0.0.1", .port = std::nullopt};
    return parse_endpoint(request.address,
                          "--master-addr");  // a port glued on is taken, or refused as ambiguous
  }
  const int port = parse_port(request.port, "--master-port");
  return {.host = request.address.empty() ? "127.0.0.1" : without_brackets(request.address),
          .port = port};
}

void place(Options& options, const Request& request, const Machine& machine) {
  options.nodes = nodes_of(request.nodes);
  options.node_rank = request.node_rank;
  options.local_ranks = ranks_of(request.ranks, machine);
  if (request.node_rank < 0 || request.node_rank >= options.nodes) {
    refuse(Fault::Usage,
           "--node-rank",
           cat(request.node_rank, " is not a node of ", options.nodes),
           cat("Give 0 to ", options.nodes - 1, ", or the right --nnodes"));
  }
  const Endpoint meeting = meeting_point(request, options.nodes);
  options.address = meeting.host;
  options.port = meeting.port == 0 ? std::nullopt : meeting.port;
  if (options.nodes == 1)
    return;
  if (request.address.empty() && request.endpoint.empty()) {
    refuse(Fault::Usage,
           "--master-addr",
           "several nodes need the address of node 0",
           "Give --master-addr ADDRESS, the same on every node");
  }
  if (!options.port)
    options.port = kDefaultPortOfNodes;
  if (request.max_restarts > 0) {
    refuse(Fault::Config,
           "--max-restarts",
           "a restart over several nodes is not built",
           "Leave it out, or run on one node; the ranks can resume from their checkpoint");
  }
}

}  // namespace

Machine this_machine() {
  Machine machine{.physical_cores = physical_cores(),
                  .devices = visible_devices(),
                  .python = env("PYTHON_EXEC")};
  if (const auto threads = env_int("OMP_NUM_THREADS"))
    machine.omp_threads = static_cast<int>(*threads);
  return machine;
}

int ranks_of(const std::string& text, const Machine& machine) {
  if (text == "cpu")
    return machine.physical_cores;
  if (text == "auto")
    return machine.devices > 0 ? machine.devices : machine.physical_cores;
  if (text == "gpu") {
    if (machine.devices > 0)
      return machine.devices;
    refuse(Fault::Config,
           "--nproc-per-node gpu",
           "this machine shows no CUDA device",
           "Give a number, or cpu, or auto; check CUDA_VISIBLE_DEVICES");
  }
  const auto number = parse_int(text);
  if (!number || *number < 1 || *number > 4096) {
    const std::vector<std::string> known = {"auto", "cpu", "gpu"};
    refuse(Fault::Usage,
           "--nproc-per-node",
           cat("'", text, "' is no number of ranks", did_you_mean(text, known)),
           "Give a number from 1, auto, cpu or gpu");
  }
  return static_cast<int>(*number);
}

std::vector<std::string> program_words(const Request& request, const Machine& machine) {
  const bool python =
      request.module || (!request.no_python && request.program.front().ends_with(".py"));
  if (request.module && request.no_python) {
    refuse(Fault::Usage,
           "--module",
           "a module needs Python, which --no-python rules out",
           "Leave one of the two out");
  }
  if (!python)
    return request.program;
  std::vector<std::string> words = {machine.python.value_or("python3"), "-u"};
  if (request.module)
    words.emplace_back("-m");
  words.insert(words.end(), request.program.begin(), request.program.end());
  return words;
}

Options options_of(const Request& request, const Machine& machine) {
  if (request.program.empty()) {
    refuse(Fault::Usage,
           "program",
           "there is no program to start",
           "Give it at the end: lockstep run -n 2 -- PROGRAM ARGUMENTS");
  }
  Options options;
  check_backend(request.rendezvous_backend);
  place(options, request, machine);
  options.run_id = request.run_id;
  options.role = request.role;
  options.rendezvous_timeout = timeout_of(request.rendezvous_conf);
  if (request.max_restarts < 0)
    refuse(Fault::Usage, "--max-restarts", "it is negative", "Give 0 or more");
  options.max_restarts = request.max_restarts;
  if (!(request.shutdown_timeout_seconds >= 0) || request.shutdown_timeout_seconds > 86400) {
    refuse(Fault::Usage,
           "--shutdown-timeout",
           "it is not between 0 and 86400 seconds",
           "Give seconds, such as 8");
  }
  options.shutdown_timeout =
      std::chrono::milliseconds(std::llround(request.shutdown_timeout_seconds * 1000));
  options.leave_timeout = options.shutdown_timeout;
  options.log_dir = request.log_dir;
  if (!request.redirects.empty())
    options.redirects = streams_of_ranks(request.redirects, "--redirects", options.local_ranks);
  if (!request.tee.empty())
    options.tee = streams_of_ranks(request.tee, "--tee", options.local_ranks);
  if (request.log_dir.empty() && !(options.redirects.empty() && options.tee.empty())) {
    refuse(Fault::Usage,
           "--redirects, --tee",
           "there is no folder for the ranks' files",
           "Give --log-dir DIR");
  }
  if (!request.log_dir.empty())
    options.failure_file = options.log_dir / "failure.json";
  if (!request.env_file.empty())
    options.environment = read_env_file(request.env_file);
  options.threads =
      threads_per_rank(machine.physical_cores, options.local_ranks, machine.omp_threads);
  options.program = program_words(request, machine);
  return options;
}

}  // namespace lockstep::launch
