// SPDX-License-Identifier: Apache-2.0
// `lockstep train` with parallel.zero = 1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"

#include "support/process.h"

namespace lockstep::test {
namespace {

using Json = nlohmann::json;

class TrainZero : public testing::Test {
 protected:
  Finished train(int ranks, const std::string& out, const std::vector<std::string>& more) {
    Command command{.words = {program("lockstep"),
                              "train",
                              cat(LOCKSTEP_SOURCE_DIR, "/configs/tiny.toml"),
                              "-n",
                              cat(ranks),
                              "--out",
                              (folder_ / out).string()}};
    for (const char* setting : {"batch.global=12",
                                "optimizer.clip=0.5",
                                "model.dropout=0.1",
                                "model.layers=1",
                                "data.valid=[]",
                                "train.steps=6"}) {
      command.words.insert(command.words.end(), {"--set", setting});
    }
    command.words.insert(command.words.end(), more.begin(), more.end());
    command.directory = LOCKSTEP_SOURCE_DIR;
    return run(command);
  }
  std::vector<Json> metrics(const std::string& out) {
    std::vector<Json> lines;
    for (const std::string& line : split(trim(read_file(folder_ / out / "metrics.jsonl")), '\n'))
      lines.push_back(Json::parse(line));
    return lines;
  }
  void expect_same_course(const std::string& a, const std::string& b) {
    const auto one = metrics(a);
    const auto other = metrics(b);
    ASSERT_EQ(one.size(), 6U);
    ASSERT_EQ(other.size(), 6U);
    for (std::size_t at = 0; at < one.size(); ++at) {
      for (const char* figure : {"loss", "grad_norm"}) {
        const double expected = one[at].at(figure);
        EXPECT_NEAR(other[at].at(figure).get<double>(), expected, 1e-5 * expected)
            << figure << " of step " << at + 1;
      }
    }
  }
  TemporaryFolder folder_;
};

TEST_F(TrainZero, ResumesOnAnotherNumberOfRanksAndAtAnotherLevel) {
  ASSERT_EQ(train(1, "one", {}).status, 0);
  for (const auto& [first, second] : {std::pair{std::pair{3, "1"}, std::pair{2, "1"}},
                                      {{2, "1"}, {3, "0"}},
                                      {{2, "0"}, {4, "1"}}}) {
    const std::string out = cat(first.first, first.second, second.first, second.second);
    const Finished begun =
        train(first.first, out, {"--steps", "3", "--set", cat("parallel.zero=", first.second)});
    ASSERT_EQ(begun.status, 0) << begun.err;
    const Finished resumed =
        train(second.first, out, {"--resume", "--set", cat("parallel.zero=", second.second)});
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    expect_same_course("one", out);
  }
}

TEST_F(TrainZero, RefusesLevelsAndMeshesThatAreNotThere) {
  const Finished level = train(2, "a", {"--set", "parallel.zero=2"});
  EXPECT_EQ(level.status, 3);
  EXPECT_THAT(level.err, testing::HasSubstr("parallel.zero"));
  const Finished mesh =
      train(4, "b", {"--set", "parallel.zero=1", "--set", "parallel.dp_replicate=2"});
  EXPECT_EQ(mesh.status, 3);
  EXPECT_THAT(mesh.err, testing::HasSubstr("parallel.dp_replicate"));
}

}  // namespace
}  // namespace lockstep::test
