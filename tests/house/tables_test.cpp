// SPDX-License-Identifier: Apache-2.0
// The tables of docs/ against the tests: a test that is named exists, a field case that is tested
// is listed, links lead somewhere.
#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "support/process.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

fs::path source() { return LOCKSTEP_SOURCE_DIR; }

std::vector<std::string> matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), regex), end; it != end; ++it) {
    found.push_back((*it)[1].str() + (it->size() > 2 ? "." + (*it)[2].str() : ""));
  }
  return found;
}

/// "Suite.Case" of every test in tests/.
const std::set<std::string>& tests() {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(source() / "tests")) {
      if (entry.path().extension() != ".cpp")
        continue;
      for (auto& name :
           matches(read_file(entry.path()), R"(\bTEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\))")) {
        all.insert(std::move(name));
      }
    }
    return all;
  }();
  return names;
}

TEST(Tables, TestsNamedInDocsExist) {
  int named = 0;
  for (const char* page : {"field-cases.md", "questions.md"}) {
    for (const std::string& name :
         matches(read_file(source() / "docs" / page), R"(`([A-Z]\w+\.[A-Z]\w+)`)")) {
      ++named;
      EXPECT_TRUE(tests().contains(name)) << page << " names " << name;
    }
  }
  EXPECT_GT(named, 40);
}

TEST(Tables, EveryFieldCaseThatIsTestedIsListed) {
  const std::string page = read_file(source() / "docs/field-cases.md");
  for (const std::string& name : tests()) {
    std::smatch match;
    if (!std::regex_search(name, match, std::regex(R"(_([A-Z]{3})_(\d\d)$)")))
      continue;
    EXPECT_TRUE(contains(page, cat("| ", match[1].str(), "-", match[2].str(), " |")))
        << name << " is not in docs/field-cases.md";
    EXPECT_TRUE(contains(page, cat("`", name, "`"))) << name << " is not in docs/field-cases.md";
  }
}

/// Field cases that this version stands for, whatever else is listed.
const std::map<std::string, std::vector<int>>& promised() {
  static const std::map<std::string, std::vector<int>> cases = {
      {"LAU", {1, 6, 7, 8, 12, 17, 18, 19, 21, 22, 23}},
      {"HNG", {1, 3, 6}},
      {"SMP", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {"DDP", {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16}}};
  return cases;
}

TEST(Tables, EveryPromisedFieldCaseHasATest) {
  for (const auto& [kind, numbers] : promised()) {
    for (const int number : numbers) {
      const std::string ending = cat("_", kind, number < 10 ? "_0" : "_", number);
      EXPECT_TRUE(std::ranges::any_of(
          tests(), [&](const std::string& name) { return name.ends_with(ending); }))
          << "no test ends in " << ending;
    }
  }
}

TEST(Tables, LinksLeadToFiles) {
  std::vector<fs::path> pages = {source() / "README.md", source() / "CONTRIBUTING.md"};
  for (const char* folder : {"docs", "examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(source() / folder)) {
      if (entry.path().extension() == ".md")
        pages.push_back(entry.path());
    }
  }
  for (const fs::path& page : pages) {
    for (const std::string& link : matches(read_file(page), R"(\]\(([^)#:]+)(?:#[^)]*)?\))")) {
      EXPECT_TRUE(fs::exists(page.parent_path() / link)) << page << " links to " << link;
    }
  }
}

}  // namespace
}  // namespace lockstep::test
