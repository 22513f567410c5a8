// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <CLI/CLI.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/common/command.h"

namespace lockstep::cli {

namespace {

std::vector<std::string> long_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames())
      names.push_back(cat("--", name));
  }
  return names;
}

// "data prepare": the words that lead to the command.
std::string words_to(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : cat(words_to(*app.get_parent()), " ", app.get_name());
}

const CLI::Option& option_of(const CLI::App& app,
                             const std::string& spelled,
                             const std::string& typed) {
  if (const CLI::Option* option = app.get_option_no_throw(spelled))
    return *option;
  throw Error(
      {.fault = Fault::Usage,
       .where = {.subject = app.get_name()},
       .problem = cat("there is no option '", typed, "'", did_you_mean(spelled, long_options(app))),
       .next = cat("See lockstep ", words_to(app), " --help")});
}

const CLI::App* subcommand_of(const CLI::App& app, const std::string& word) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_name() == word)
      return sub;
  }
  return nullptr;
}

Error no_such_verb(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return Error(
      {.fault = Fault::Usage,
       .where = {.subject = app.get_name()},
       .problem = cat("there is no '", app.get_name(), " ", word, "'", did_you_mean(word, names)),
       .next = cat("Use one of: ", join(names, ", "))});
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

bool is_option(const std::string& word) {
  return word.size() > 1 && word[0] == '-' && !parse_double(word).has_value();
}

}  // namespace

std::vector<std::string> canonical_arguments(const CLI::App& app,
                                             std::span<const std::string> arguments) {
  const CLI::App* current = &app;
  std::vector<std::string> result;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool positional = !is_option(word);
    if (word == "--" || (positional && current->get_prefix_command())) {
      result.emplace_back("--");
      result.insert(result.end(),
                    arguments.begin() + static_cast<std::ptrdiff_t>(i + (word == "--" ? 1 : 0)),
                    arguments.end());
      return result;
    }
    if (positional) {
      const CLI::App* sub = subcommand_of(*current, word);
      if (sub == nullptr && current->get_require_subcommand_min() > 0)
        throw no_such_verb(*current, word);
      if (sub != nullptr)
        current = sub;
      result.push_back(word);
      continue;
    }
    const bool is_long = word.starts_with("--");
    const std::size_t equals = is_long ? word.find('=') : std::string::npos;
    std::string name = is_long ? word.substr(0, equals) : word.substr(0, 2);
    std::replace(name.begin(), name.end(), '_', '-');
    const CLI::Option& option = option_of(*current, name, word.substr(0, equals));
    const std::string rest =
        is_long ? (equals == std::string::npos ? "" : word.substr(equals)) : word.substr(2);
    result.push_back(name + rest);
    if (takes_value(option) && rest.empty() && i + 1 < arguments.size())
      result.push_back(arguments[++i]);
  }
  return result;
}

}  // namespace lockstep::cli
