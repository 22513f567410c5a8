// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cli/common/build_info.h"
#include "lockstep/cli/common/command.h"

namespace lockstep::cli {

namespace {

std::string version_text(const Program& program) {
  return cat(program.name,
             " ",
             kVersion,
             "\nlibtorch ",
             kTorchVersion,
             "\ncompiler ",
             kCompiler,
             "\nbackends ",
             kBackends,
             "\n");
}

std::string help_text(const Program& program) {
  std::size_t width = 0;
  for (const Command& command : program.commands)
    width = std::max(width, command.name.size());
  std::string text =
      cat(program.description, "\n\nUsage: ", program.name, " COMMAND [options]\n\nCommands:\n");
  for (const Command& command : program.commands) {
    if (command.help.empty())
      continue;
    text += cat(
        "  ", command.name, std::string(width - command.name.size() + 2, ' '), command.help, "\n");
  }
  text += cat(
      "\n",
      program.name,
      " COMMAND --help tells the options of a command.\n",
      program.name,
      " --version tells the version, and the libtorch, compiler and backends it was built with.\n");
  return text;
}

const Command& command_of(const Program& program, const std::string& word) {
  std::vector<std::string> names;
  for (const Command& command : program.commands) {
    if (command.name == word)
      return command;
    if (!command.help.empty())
      names.emplace_back(command.name);
  }
  throw Error(
      {.fault = Fault::Usage,
       .problem = cat(word.starts_with('-') ? "there is no option '" : "there is no command '",
                      word,
                      "'",
                      did_you_mean(word, names)),
       .next = cat("See ", program.name, " --help")});
}

class Help : public CLI::Formatter {
 public:
  Help() { column_width(38); }
  std::string make_usage(const CLI::App* app, std::string name) const override {
    if (!app->get_prefix_command())
      return CLI::Formatter::make_usage(app, name);
    return cat("Usage: ", name, " [options] [--] PROGRAM [arguments]\n");
  }
};

int run_command(const Program& program,
                const Command& command,
                std::span<const std::string> arguments) {
  CLI::App app(std::string(command.help), std::string(command.name));
  if (!command.examples.empty())
    app.footer(cat("Examples:\n", command.examples));
  app.formatter(std::make_shared<Help>());
  const std::function<int()> body = command.make(app);
  try {
    std::vector<std::string> words = canonical_arguments(app, arguments);
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help(std::string(program.name));  // CLI11 adds the command
    return 0;
  } catch (const CLI::ParseError& error) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = std::string(command.name)},
                 .problem = error.what(),
                 .next = cat("See ", program.name, " ", command.name, " --help")});
  }
  return body();
}

int dispatch(const Program& program, std::span<const std::string> arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
      arguments[0] == "help") {
    (arguments.empty() ? std::cerr : std::cout) << help_text(program);
    return arguments.empty() ? static_cast<int>(Fault::Usage) : 0;
  }
  if (arguments[0] == "--version") {
    std::cout << version_text(program);
    return 0;
  }
  const Command& command = command_of(program, arguments[0]);
  if (command.make == nullptr)
    return program.run_elsewhere(arguments);
  return run_command(program, command, arguments.subspan(1));
}

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    const int status = dispatch(program, arguments);
    std::cout.flush();
    return status;
  } catch (const Error& error) {
    std::cerr << cat(program.name, ": ", error.what(), "\n");
    return error.exit_status();
  } catch (const std::exception& error) {
    std::cerr << cat(program.name, ": internal error: ", error.what(), "\n");
    return static_cast<int>(Fault::Internal);
  }
}

}  // namespace lockstep::cli
