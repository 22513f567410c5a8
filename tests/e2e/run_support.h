// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "lockstep/base/text.h"

#include "support/process.h"

namespace lockstep::test {

/// `lockstep run OPTIONS -- scripted_rank STEPS`; the steps are those of programs/scripted_rank.cpp.
inline Command run_ranks_command(const std::vector<std::string>& options,
                                 const std::vector<std::string>& steps) {
  Command command;
  command.words = {program("lockstep").string(), "run"};
  command.words.insert(command.words.end(), options.begin(), options.end());
  command.words.emplace_back("--");
  command.words.push_back(program("programs/scripted_rank").string());
  command.words.insert(command.words.end(), steps.begin(), steps.end());
  return command;
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + part.size()))
    ++found;
  return found;
}

}  // namespace lockstep::test
