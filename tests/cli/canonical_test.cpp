// SPDX-License-Identifier: Apache-2.0
// What a command line may look like, for every command of both programs.
#include <CLI/CLI.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/cli/common/command.h"
#include "lockstep/cli/front/commands.h"

namespace lockstep::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> canonical(CLI::App& app, std::vector<std::string> words) {
  return canonical_arguments(app, words);
}

TEST(Arguments, BothSpellingsOfLongOptionsAreTaken) {
  CLI::App app;
  std::string value;
  app.add_option("-d,--log-dir", value);
  EXPECT_THAT(canonical(app, {"--log_dir", "a_b"}), ElementsAre("--log-dir", "a_b"));
  EXPECT_THAT(canonical(app, {"--log_dir=a_b"}), ElementsAre("--log-dir=a_b"));
  EXPECT_THAT(canonical(app, {"-d", "-1"}), ElementsAre("-d", "-1"));
}

TEST(Arguments, UnknownOptionGetsTheNearestRightOne) {
  CLI::App app("", "run");
  std::string value;
  app.add_option("--log-dir", value);
  try {
    canonical(app, {"--log-dri", "x"});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Usage);
    EXPECT_THAT(error.what(), HasSubstr("--log-dri"));
    EXPECT_THAT(error.what(), HasSubstr("did you mean '--log-dir'"));
  }
}

TEST(Arguments, AdviceNamesTheWholeCommand) {
  CLI::App app("", "data");
  app.add_subcommand("prepare");
  try {
    canonical(app, {"prepare", "--jsn"});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("See lockstep data prepare --help"));
  }
}

TEST(Arguments, AnotherProgramsWordsAreLeftAlone) {
  CLI::App app;
  int ranks = 0;
  app.prefix_command();
  app.add_option("-n", ranks);
  EXPECT_THAT(canonical(app, {"-n", "2", "prog", "--a_b", "-n"}),
              ElementsAre("-n", "2", "--", "prog", "--a_b", "-n"));
  EXPECT_THAT(canonical(app, {"-n", "2", "--", "prog", "--", "x"}),
              ElementsAre("-n", "2", "--", "prog", "--", "x"));
}

TEST(Commands, EachHasOneLineOfHelpAndExamples) {
  EXPECT_FALSE(front_commands().empty());
  for (const Command& command : front_commands()) {
    EXPECT_FALSE(command.help.empty()) << command.name;
    EXPECT_EQ(command.help.find('\n'), std::string_view::npos) << command.name;
    if (command.make == nullptr)
      continue;
    EXPECT_THAT(std::string(command.examples), HasSubstr("lockstep ")) << command.name;
    CLI::App app(std::string(command.help), std::string(command.name));
    EXPECT_TRUE(command.make(app)) << command.name;
  }
}

}  // namespace
}  // namespace lockstep::cli
