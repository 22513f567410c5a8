// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "support/process.h"

namespace lockstep::test {
namespace {

std::vector<std::string> code_lines(const std::string& path) {
  std::vector<std::string> lines;
  for (const std::string& line : split(read_file(cat(LOCKSTEP_SOURCE_DIR, "/", path)), '\n')) {
    if (!trim(line).empty() && !trim(line).starts_with("//"))
      lines.push_back(line);
  }
  return lines;
}

/// Length of the longest common subsequence.
std::size_t common(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::vector<std::size_t>> best(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      best[i][j] =
          a[i - 1] == b[j - 1] ? best[i - 1][j - 1] + 1 : std::max(best[i - 1][j], best[i][j - 1]);
    }
  }
  return best[a.size()][b.size()];
}

Finished example(const std::string& name, int ranks) {
  const std::string tokens = cat(LOCKSTEP_SOURCE_DIR, "/data/demo/train.tokens");
  std::vector<std::string> words = {program(cat("examples/", name)).string(), tokens};
  if (ranks > 0) {
    const std::vector<std::string> launch = {
        program("lockstep").string(), "run", "-n", cat(ranks), "--"};
    words.insert(words.begin(), launch.begin(), launch.end());
  }
  return run({.words = words});
}

/// The number after the last "weights " that was printed.
std::string weights(const Finished& finished) {
  const std::size_t at = finished.out.rfind("weights ");
  return at == std::string::npos ? finished.err : first_line(finished.out.substr(at));
}

TEST(Examples, MinimalProgramHasUnderFortyLines) {
  EXPECT_LT(
      split(read_file(cat(LOCKSTEP_SOURCE_DIR, "/examples/01_minimal_ddp/minimal_ddp.cpp")), '\n')
          .size(),
      41U);
}

/// Every example is started with a file that is not there: an error of a rank, told by it.
TEST(Examples, TellTheErrorOfARankInsteadOfAborting) {
  for (const char* name : {"minimal_ddp", "own_model"}) {
    const Finished finished = run({.words = {program("lockstep").string(),
                                             "run",
                                             "-n",
                                             "2",
                                             "--",
                                             program(cat("examples/", name)).string(),
                                             "no-such.tokens"}});
    EXPECT_EQ(finished.status, 7) << name << finished.err;  // Storage
    EXPECT_TRUE(contains(finished.err, "no-such.tokens: there is no such file")) << finished.err;
    EXPECT_FALSE(contains(finished.err, "SIGABRT")) << finished.err;
  }
}

TEST(Examples, ConvertingChangesAtMostSixLines) {
  const auto single = code_lines("examples/02_convert/single.cpp");
  const auto parallel = code_lines("examples/02_convert/parallel.cpp");
  const std::size_t same = common(single, parallel);
  EXPECT_LE(parallel.size() - same, 6U);
  EXPECT_LE(single.size() - same, 6U);
  EXPECT_TRUE(contains(read_file(cat(LOCKSTEP_SOURCE_DIR, "/examples/02_convert/parallel.cpp")),
                       "rank_main"));
}

TEST(Examples, ConvertedProgramTrainsWhatTheSingleOneDoes) {
  const Finished single = example("single", 0);
  ASSERT_EQ(single.status, 0) << single.err;
  for (const int ranks : {1, 2, 4}) {
    const Finished parallel = example("parallel", ranks);
    ASSERT_EQ(parallel.status, 0) << parallel.err;
    const double expected = parse_double(weights(single).substr(8)).value();
    EXPECT_NEAR(parse_double(weights(parallel).substr(8)).value(), expected, 1e-4 * expected)
        << ranks << " ranks";
  }
}

TEST(Examples, MinimalProgramLearns) {
  const Finished finished = example("minimal_ddp", 2);
  ASSERT_EQ(finished.status, 0) << finished.err;
  const std::size_t at = finished.out.find("step 100 loss ");
  ASSERT_NE(at, std::string::npos) << finished.out;
  EXPECT_LT(std::stod(finished.out.substr(at + 14)), 3.0);
}

}  // namespace
}  // namespace lockstep::test
