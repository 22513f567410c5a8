// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/front/own_ranks.h"

#include <algorithm>
#include <array>

#include "lockstep/base/env.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/common/engine.h"
#include "lockstep/launch/launcher.h"
#include "lockstep/launch/request.h"

namespace lockstep::cli {

namespace {

// The option's value where `words[at]` is the option `name` (in either spelling); moves `at` to the last
// word that belongs to it.
std::optional<std::string> value_of(std::span<const std::string> words,
                                    std::size_t& at,
                                    std::string_view name) {
  std::string word = words[at].substr(0, words[at].find('='));
  std::replace(word.begin(), word.end(), '_', '-');
  if (word != name)
    return std::nullopt;
  if (const std::size_t equals = words[at].find('='); equals != std::string::npos)
    return words[at].substr(equals + 1);
  if (at + 1 < words.size())
    return words[++at];
  throw Error({.fault = Fault::Usage,
               .where = {.subject = std::string(name)},
               .problem = "its value is missing",
               .next = cat("Give one after ", name)});
}

}  // namespace

OwnRanks split_own_ranks(std::span<const std::string> arguments) {
  OwnRanks own;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "-h" || word == "--help" || word == "--print-config" || word == "--print_config")
      own.only_tells = true;
    if (word.size() > 2 && word.starts_with("-n") && word[2] != '-') {
      own.ranks = word.substr(word[2] == '=' ? 3 : 2);
      continue;
    }
    auto ranks = value_of(arguments, i, "-n");
    if (!ranks)
      ranks = value_of(arguments, i, "--nproc-per-node");
    if (ranks) {
      own.ranks = *ranks;
      continue;
    }
    if (const auto out = value_of(arguments, i, "--out")) {
      own.out = *out;
      own.arguments.insert(own.arguments.end(), {"--out", *out});
      continue;
    }
    own.arguments.push_back(word);
  }
  return own;
}

bool under_launcher() {
  constexpr std::array kNames = {"RANK",
                                 "WORLD_SIZE",
                                 "OMPI_COMM_WORLD_RANK",
                                 "PMI_RANK",
                                 "PMIX_RANK",
                                 "PET_RANK",
                                 "MV2_COMM_WORLD_RANK",
                                 "SLURM_PROCID"};
  return std::any_of(
      kNames.begin(), kNames.end(), [](const char* name) { return env(name).has_value(); });
}

int run_engine_command(std::span<const std::string> arguments) {
  if (arguments.front() != "train" || under_launcher())
    return exec_engine(arguments);
  const OwnRanks own = split_own_ranks(arguments);
  if (own.only_tells)
    return exec_engine(own.arguments);
  launch::Request request;
  request.ranks = own.ranks;
  request.program = {engine_program().string()};
  request.program.insert(request.program.end(), own.arguments.begin(), own.arguments.end());
  launch::Options options = launch::options_of(request, launch::this_machine());
  options.engine = engine_program();
  options.terminal = launch::Terminal::RankZero;
  if (own.out)
    options.failure_file = std::filesystem::path(*own.out) / "failure.json";
  return launch::launch(options);
}

}  // namespace lockstep::cli
