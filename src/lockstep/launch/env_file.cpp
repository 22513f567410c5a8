// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/env_file.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::launch {

namespace {

bool is_name(std::string_view text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) != 0)
    return false;
  return std::all_of(text.begin(), text.end(), [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_';
  });
}

std::string unquoted(const std::string& value) {
  if (value.size() < 2)
    return value;
  const char quote = value.front();
  if ((quote != '"' && quote != '\'') || value.back() != quote)
    return value;
  const std::string inner = value.substr(1, value.size() - 2);
  return contains(inner, std::string(1, quote)) ? value : inner;
}

}  // namespace

std::vector<Assignment> parse_env_file(std::string_view text, std::string_view name) {
  std::vector<Assignment> assignments;
  std::vector<Finding> findings;
  int number = 0;
  for (std::string line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r'))
      line.pop_back();
    std::string_view rest = line;
    while (!rest.empty() && (rest.front() == ' ' || rest.front() == '\t'))
      rest.remove_prefix(1);
    if (rest.empty() || rest.front() == '#')
      continue;
    if (rest.starts_with("export "))
      rest.remove_prefix(7);
    const std::size_t equals = rest.find('=');
    const std::string key(trim(rest.substr(0, equals)));
    if (equals == std::string_view::npos || !is_name(key)) {
      findings.push_back({cat(name, ", line ", number),
                          cat("'", line, "' is not KEY=VALUE"),
                          "Correct it or put # before it"});
      continue;
    }
    assignments.push_back({key, unquoted(std::string(rest.substr(equals + 1)))});
  }
  throw_findings(Fault::Config, "the environment file has lines that cannot be read", findings);
  return assignments;
}

std::vector<Assignment> read_env_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw Error({.fault = Fault::Environment,
                 .where = {.subject = path.string()},
                 .problem = "the environment file cannot be read",
                 .next = "Give an existing file with --env-file"});
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse_env_file(text.str(), path.string());
}

}  // namespace lockstep::launch
