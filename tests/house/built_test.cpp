// SPDX-License-Identifier: Apache-2.0
// No test file is left out of the build: each has its program, and each of its suites is in that
// program.
#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "support/process.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

std::set<std::string> suites_written_in(const std::string& text) {
  static const std::regex pattern(R"(\bTEST(?:_F|_P)?\(\s*(\w+)\s*,)");
  std::set<std::string> suites;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    suites.insert((*it)[1]);
  return suites;
}

TEST(TestFiles, EachIsBuiltAndHoldsEachOfItsSuites) {
  const fs::path root = fs::path(LOCKSTEP_SOURCE_DIR) / "tests";
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with("_test.cpp"))
      continue;
    ++files;
    std::string target = fs::relative(entry.path(), root).replace_extension().string();
    std::replace(target.begin(), target.end(), '/', '_');
    const fs::path program = fs::path(LOCKSTEP_BUILD_DIR) / "tests" / target;
    ASSERT_TRUE(fs::exists(program)) << entry.path() << " is not built";
    const std::string listed = run({.words = {program.string(), "--gtest_list_tests"}}).out;
    for (const std::string& suite : suites_written_in(read_file(entry.path()))) {
      EXPECT_TRUE(contains(listed, cat(suite, ".")) || contains(listed, cat("/", suite, "/")))
          << suite << " of " << entry.path();
    }
  }
  EXPECT_GT(files, 3);
}

}  // namespace
}  // namespace lockstep::test
