// SPDX-License-Identifier: Apache-2.0
// Runs what README, docs and examples show: every line that begins with "$ " in a ```console block,
// in order, page by page.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "support/process.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

struct Shown {
  std::string command;
  std::vector<std::string> output;  // lines that the page shows below it; "..." stands for anything
};

std::vector<Shown> shown_in(const fs::path& page) {
  std::vector<Shown> commands;
  std::ifstream stream(page);
  bool inside = false;
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("```")) {
      inside = line == "```console";
    } else if (inside && line.starts_with("$ ")) {
      commands.push_back({line.substr(2), {}});
    } else if (inside && !commands.empty()) {
      commands.back().output.push_back(line);
    }
  }
  return commands;
}

// The set-up itself, which this test runs under, and what takes a machine of its own.
bool is_set_up(const std::string& command) {
  for (const char* prefix : {"git clone", "cd lockstep", "make", "sudo", "cmake --workflow"}) {
    if (command.starts_with(prefix))
      return true;
  }
  return false;
}

std::vector<fs::path> pages() {
  const fs::path root = LOCKSTEP_SOURCE_DIR;
  std::vector<fs::path> found = {root / "README.md", root / "CONTRIBUTING.md"};
  for (const char* folder : {"docs", "examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() == ".md")
        found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// A scratch root with the built programs and the demo's data, so that pages may write runs/ as a
// user would.
void furnish(const TemporaryFolder& scratch) {
  const fs::path root = LOCKSTEP_SOURCE_DIR;
  fs::create_directory_symlink(LOCKSTEP_BUILD_DIR, scratch / "build");
  for (const char* name : {"configs", "examples", "docs", "bench", ".venv", "README.md"}) {
    if (fs::exists(root / name))
      fs::create_symlink(fs::canonical(root / name), scratch / name);
  }
  if (fs::exists(root / "data/demo")) {
    fs::create_directory(scratch / "data");
    fs::create_symlink(root / "data/demo", scratch.path() / "data/demo");
  }
}

TEST(Docs, EveryCommandShownRuns) {
  int commands = 0;
  for (const fs::path& page : pages()) {
    const TemporaryFolder scratch;
    furnish(scratch);
    for (const Shown& shown : shown_in(page)) {
      if (is_set_up(shown.command))
        continue;
      ++commands;
      const Finished finished = run({.words = {"bash", "-c", shown.command},
                                     .directory = scratch.path(),
                                     .timeout = std::chrono::seconds(120)});
      EXPECT_EQ(finished.status, 0) << page << ": $ " << shown.command << "\n"
                                    << finished.out << finished.err;
      for (const std::string& line : shown.output) {
        if (line.empty() || contains(line, "..."))
          continue;
        EXPECT_TRUE(contains(finished.out + finished.err, line))
            << page << ": $ " << shown.command << "\nshould print: " << line << "\nprinted:\n"
            << finished.out << finished.err;
      }
    }
  }
  EXPECT_GT(commands, 10) << "the pages show no commands, or this test did not find them";
}

}  // namespace
}  // namespace lockstep::test
