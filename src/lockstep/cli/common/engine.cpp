// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/common/engine.h"

#include <cerrno>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::cli {

std::filesystem::path engine_program() {
  const std::filesystem::path engine =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "lockstep-engine";
  if (access(engine.c_str(), X_OK) == 0)
    return engine;
  throw Error({.fault = Fault::Environment,
               .where = {.subject = engine.string()},
               .problem = "the program with the commands that need libtorch is missing",
               .next = "Build or install the target lockstep-engine into the same folder"});
}

int exec_engine(std::span<const std::string> arguments) {
  const std::string engine = engine_program().string();
  std::vector<std::string> words = {engine};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(engine.c_str(), argv.data());
  throw Error({.fault = Fault::Environment,
               .where = {.subject = engine},
               .problem = "the program cannot be started",
               .cause = std::generic_category().message(errno),
               .next = "Build or install the target lockstep-engine again"});
}

}  // namespace lockstep::cli
