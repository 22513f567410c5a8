// SPDX-License-Identifier: Apache-2.0
// A rank that does what its arguments say, one after another:
//   [RANK@]word[:text[:text...]]      RANK@ before a word: only this rank does it
// join finish phase:P fail:FAULT:ERROR[:OPERATION[:consequence]]   what it tells the launcher
// print:T error:T lines:COUNT:WIDTH env:NAME                        what it prints
// barrier:NAME wait:KEY set:KEY                                     the launcher's store
// sleep:MS exit:N raise:SIGNAL ignore:SIGNAL on-term:N children:N daemon once:FILE (exit 3 where FILE is not there yet, and makes it)
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "lockstep/base/agent.h"
#include "lockstep/base/env.h"
#include "lockstep/base/text.h"

#include "store_client.h"

namespace {

using lockstep::cat;
using lockstep::test::StoreClient;
using Words = std::vector<std::string>;

volatile std::sig_atomic_t status_on_term = 0;

int number(const std::string& text) {
  return static_cast<int>(lockstep::parse_int(text).value_or(0));
}

class Script {
 public:
  void run(const std::string& step) {
    Words words = lockstep::split(step, ':');
    if (const std::size_t at = words[0].find('@'); at != std::string::npos) {
      if (number(words[0].substr(0, at)) != rank_)
        return;
      words[0] = words[0].substr(at + 1);
    }
    const auto found = steps_.find(words[0]);
    if (found == steps_.end()) {
      std::fprintf(stderr, "unknown step %s\n", step.c_str());
      std::exit(99);
    }
    words.resize(5);
    found->second(words);
  }

 private:
  StoreClient& store() {
    if (!store_)
      store_.emplace(lockstep::env("MASTER_ADDR").value_or(""),
                     static_cast<int>(lockstep::env_int("MASTER_PORT").value_or(0)));
    return *store_;
  }

  void lines(int count, int width) const {
    for (int i = 0; i < count; ++i) {
      std::string line = cat("rank ", rank_, " line ", i, " ");
      line.resize(static_cast<std::size_t>(width), 'x');
      std::printf("%s\n", line.c_str());
    }
    std::fflush(stdout);
  }

  static void child(bool own_session) {
    if (fork() != 0)
      return;
    if (own_session)
      setsid();
    std::this_thread::sleep_for(std::chrono::seconds(100));
    _exit(0);
  }

  static void once(const std::string& file) {
    if (access(file.c_str(), F_OK) == 0)
      return;
    close(open(file.c_str(), O_CREAT | O_WRONLY, 0600));
    std::exit(3);
  }

  int rank_ = static_cast<int>(lockstep::env_int("RANK").value_or(0));
  int size_ = static_cast<int>(lockstep::env_int("WORLD_SIZE").value_or(1));
  lockstep::Agent agent_ = lockstep::Agent::from_environment();
  std::optional<StoreClient> store_;
  std::map<std::string, std::function<void(const Words&)>> steps_ = {
      {"join", [this](const Words&) { agent_.joined(rank_, size_); }},
      {"finish", [this](const Words&) { agent_.finished(); }},
      {"phase", [this](const Words& w) { agent_.phase(w[1]); }},
      {"fail", [this](const Words& w) { agent_.failed(w[1], w[2], w[3], w[4] == "consequence"); }},
      {"print", [](const Words& w) { std::printf("%s\n", w[1].c_str()), std::fflush(stdout); }},
      {"error", [](const Words& w) { std::fprintf(stderr, "%s\n", w[1].c_str()); }},
      {"lines", [this](const Words& w) { lines(number(w[1]), number(w[2])); }},
      {"env",
       [](const Words& w) {
         std::printf("%s=%s\n", w[1].c_str(), lockstep::env(w[1]).value_or("unset").c_str());
         std::fflush(stdout);
       }},
      {"barrier", [this](const Words& w) { store().barrier(w[1], size_); }},
      {"wait", [this](const Words& w) { store().wait(w[1]); }},
      {"set", [this](const Words& w) { store().add(w[1], 1); }},
      {"sleep",
       [](const Words& w) {
         std::this_thread::sleep_for(std::chrono::milliseconds(number(w[1])));
       }},
      {"exit", [](const Words& w) { std::exit(number(w[1])); }},
      {"raise", [](const Words& w) { kill(getpid(), number(w[1])); }},
      {"ignore", [](const Words& w) { std::signal(number(w[1]), SIG_IGN); }},
      {"on-term",
       [](const Words& w) {
         status_on_term = number(w[1]), std::signal(SIGTERM, [](int) { _exit(status_on_term); });
       }},
      {"children",
       [](const Words& w) {
         for (int i = 0; i < number(w[1]); ++i)
           child(false);
       }},
      {"daemon", [](const Words&) { child(true); }},
      {"once", [](const Words& w) { once(w[1]); }},
  };
};

}  // namespace

int main(int argc, char** argv) {
  Script script;
  for (int i = 1; i < argc; ++i)
    script.run(argv[i]);
  return 0;
}
