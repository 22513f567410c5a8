// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <iostream>
#include <memory>
#include <system_error>
#include <utility>

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

// A closed descriptor must not become a file or pipe of ours. Standard output then is one that cannot be written, so that
// printing fails as it would have.
void fill_standard_descriptors() {
  for (const auto& [fd, mode] :
       {std::pair{0, O_RDONLY}, std::pair{1, O_RDONLY}, std::pair{2, O_RDWR}}) {
    if (fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int filled = open("/dev/null", mode);
  }
}

// All that a command prints has arrived, or its status is no 0.
void check_printed() {
  errno = 0;
  std::cout.flush();
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::cout.good() && std::ferror(stdout) == 0)
    return;
  throw Error({.fault = Fault::Storage,
               .where = {.subject = "standard output"},
               .problem = "it cannot be written",
               .cause = errno != 0 ? std::generic_category().message(errno) : std::string(),
               .next = "Free space there, or send it elsewhere"});
}

}  // namespace

int run_program(const Program& program, int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  fill_standard_descriptors();
  try {
    const int status = dispatch(program, arguments);
    check_printed();
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
