// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// A row of a program's table of commands. Help, did-you-mean and the tests walk the table; adding a command is a row and a
/// source file whose factory registers the options and returns what runs once they are parsed.
///
/// A factory that sets `app.prefix_command()` gets another program's command line: the first word that is not an option, or
/// all that follows "--", is left alone and lies in `app.remaining()` after one "--".
struct Command {
  std::string_view name;
  std::string_view help;      ///< one line; empty hides the command from the help
  std::string_view examples;  ///< two or three real command lines, a line each
  /// Null in the front program: the engine has the command and is started with the same arguments.
  std::function<int()> (*make)(CLI::App& app) = nullptr;
};

struct Program {
  std::string_view name;
  std::string_view description;
  std::span<const Command> commands;
  /// Runs the commands without a factory; gets all arguments after the program's name.
  int (*run_elsewhere)(std::span<const std::string> arguments) = nullptr;
};

/// Parses and runs one command line. Returns the exit status; messages of errors are printed on standard error.
int run_program(const Program& program, int argc, char** argv);

/// Options spelled as they were registered (`--log_dir` becomes `--log-dir`), another program's words left alone.
/// Throws Usage for an unknown option, with the nearest right one.
std::vector<std::string> canonical_arguments(const CLI::App& app,
                                             std::span<const std::string> arguments);

}  // namespace lockstep::cli
