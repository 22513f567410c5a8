// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/common/engine.h"
#include "lockstep/cli/front/commands.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/launch/process.h"
#include "lockstep/launch/request.h"

namespace lockstep::cli {

namespace {

struct Run {
  launch::Request request;
  std::vector<std::string> unbuilt;  // given options that ask for what is not there
  std::vector<std::string> ignored;
  bool run_path = false;
};

// "--log-dir" is also read from PET_LOG_DIR.
std::string variable_of(const std::string& names) {
  std::string name = names.substr(names.find("--") + 2);
  std::transform(name.begin(), name.end(), name.begin(), [](char letter) {
    return letter == '-' ? '_'
                         : static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  });
  return cat("PET_", name);
}

template <typename Value>
void add(CLI::App& app,
         const std::string& group,
         const std::string& names,
         Value& value,
         const std::string& help) {
  app.add_option(names, value, help)
      ->group(group)
      ->envname(variable_of(names))
      ->capture_default_str();
}

void add_size_and_meeting(CLI::App& app, launch::Request& request) {
  const std::string size = "Size";
  add(app,
      size,
      "-n,--nproc-per-node",
      request.ranks,
      "ranks of this node: N, auto (devices, else cores), cpu, gpu");
  add(app, size, "--nnodes", request.nodes, "nodes; each runs this command");
  add(app,
      size,
      "--node-rank",
      request.node_rank,
      "which of them this is; node 0 serves the store");
  const std::string meeting = "Where the ranks meet";
  add(app,
      meeting,
      "--master-addr",
      request.address,
      "address of node 0, used as typed (127.0.0.1)");
  add(app,
      meeting,
      "--master-port",
      request.port,
      "its port (one node: a free one; several: 29500)");
  add(app, meeting, "--rdzv-endpoint", request.endpoint, "both in one: host:port, [::1]:port");
  add(app,
      meeting,
      "--rdzv-conf",
      request.rendezvous_conf,
      "timeout=SECONDS: how long ranks wait for each other");
  add(app, meeting, "--rdzv-backend", request.rendezvous_backend, "static or c10d; the same here");
  add(app, meeting, "--rdzv-id", request.run_id, "name of the job");
  app.add_flag("--standalone", request.standalone, "one node, a free port")
      ->group(meeting)
      ->envname("PET_STANDALONE");
}

void add_program_and_end(CLI::App& app, Run& run) {
  launch::Request& request = run.request;
  const std::string program = "Program";
  app.add_flag("-m,--module", request.module, "the program is a Python module")
      ->group(program)
      ->envname("PET_MODULE");
  app.add_flag("--no-python", request.no_python, "execute a .py file itself")
      ->group(program)
      ->envname("PET_NO_PYTHON");
  app.add_flag("--run-path", run.run_path, "as without it: .py files run under Python")
      ->group(program)
      ->envname("PET_RUN_PATH");
  add(app,
      program,
      "--env-file",
      request.env_file,
      "KEY=VALUE lines for every rank, over this environment");
  add(app, program, "--role", request.role, "ROLE_NAME of the ranks");
  const std::string end = "Failures";
  add(app,
      end,
      "--max-restarts",
      request.max_restarts,
      "how often all ranks are started again after a failure");
  add(app,
      end,
      "--shutdown-timeout",
      request.shutdown_timeout_seconds,
      "seconds from SIGTERM to SIGKILL");
  const std::string logs = "Output";
  add(app,
      logs,
      "--log-dir",
      request.log_dir,
      "also write DIR/attempt-K/rank-N.log, and DIR/failure.json");
  add(app,
      logs,
      "-r,--redirects",
      request.redirects,
      "streams for the file only: 0-3, or 0:3,1:2 by local rank");
  add(app, logs, "-t,--tee", request.tee, "streams for file and terminal, over --redirects");
}

// Known names that cannot be served are told as such, not as unknown.
void add_others(CLI::App& app, Run& run) {
  const std::string hidden;
  for (const char* name : {"--hostfile",
                           "--include",
                           "--exclude",
                           "--emit",
                           "--interface",
                           "--local-ranks-filter",
                           "--logs-specs",
                           "--duplicate-stdout-filters",
                           "--duplicate-stderr-filters",
                           "--numa-binding",
                           "--signals-to-handle"}) {
    app.add_option_function<std::string>(
           name, [&run, name](const std::string&) { run.unbuilt.emplace_back(name); })
        ->group(hidden);
  }
  app.add_flag_function("--virtual-local-rank",
                        [&run](std::int64_t) { run.unbuilt.emplace_back("--virtual-local-rank"); })
      ->group(hidden);
  for (const char* name :
       {"--start-method", "--monitor-interval", "--event-log-handler", "--local-addr"}) {
    app.add_option_function<std::string>(
           name, [&run, name](const std::string&) { run.ignored.emplace_back(name); })
        ->group(hidden);
  }
}

int run_job(Run& run, std::vector<std::string> words) {
  if (!words.empty() && words.front() == "--")
    words.erase(words.begin());
  if (!run.unbuilt.empty()) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = join(run.unbuilt, ", ")},
                 .problem = "not built yet",
                 .next = "What is built: one node, or several with --nnodes, --node-rank and "
                         "--master-addr on each"});
  }
  for (const std::string& name : run.ignored)
    log(LogLevel::Warning, cat(name, " has no meaning here and is left out"));
  run.request.program = std::move(words);
  launch::Options options = launch::options_of(run.request, launch::this_machine());
  options.program.front() = launch::resolve_program(options.program.front());
  options.engine = engine_program();
  log(LogLevel::Info,
      cat(options.local_ranks, " ranks with ", options.threads, " threads each (OMP_NUM_THREADS)"));
  std::vector<std::string> names;
  for (const launch::Assignment& assignment : options.environment)
    names.push_back(assignment.name);
  if (!names.empty())
    log(LogLevel::Info,
        cat("from ", run.request.env_file, ", over this environment: ", join(names, " ")));
  return launch::launch(options);
}

}  // namespace

std::function<int()> make_run(CLI::App& app) {
  const auto run = std::make_shared<Run>();
  app.prefix_command();
  add_size_and_meeting(app, run->request);
  add_program_and_end(app, *run);
  add_others(app, *run);
  return [run, &app] { return run_job(*run, app.remaining()); };
}

}  // namespace lockstep::cli
