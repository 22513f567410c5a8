// SPDX-License-Identifier: Apache-2.0
// The small languages of the launcher: streams by rank, environment files, whole lines.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/env_file.h"
#include "lockstep/launch/lines.h"
#include "lockstep/launch/redirect.h"

namespace lockstep::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Streams, OneValueForAllOrAListByRank) {
  EXPECT_EQ(parse_streams("3", "-t").of(7), Streams::Both);
  const StreamChoice choice = parse_streams("0:3,2:1", "-t");
  EXPECT_EQ(choice.of(0), Streams::Both);
  EXPECT_EQ(choice.of(1), Streams::None);
  EXPECT_EQ(choice.of(2), Streams::Out);
  EXPECT_TRUE(has(Streams::Both, Streams::Err));
  EXPECT_FALSE(has(Streams::Out, Streams::Err));
  for (const char* wrong : {"", "4", "-1", "0:4", "x:1", "0:1,"}) {
    EXPECT_THROW(parse_streams(wrong, "--tee"), Error) << wrong;
  }
}

TEST(EnvFile, ValuesAreTheBytesAfterTheFirstEqualsSign) {
  const auto read = parse_env_file(
      "# comment\r\n\r\nA=1\r\n  export B=x=y  \nC=a b=c;d \"e\" $HOME\nD=\"quoted  "
      "\"\nE='single'\nF=\"half\nG=",
      "env");
  EXPECT_THAT(read,
              ElementsAre(Assignment{"A", "1"},
                          Assignment{"B", "x=y  "},
                          Assignment{"C", "a b=c;d \"e\" $HOME"},
                          Assignment{"D", "quoted  "},
                          Assignment{"E", "single"},
                          Assignment{"F", "\"half"},
                          Assignment{"G", ""}));
}

TEST(EnvFile, EveryBadLineIsToldWithItsNumberAndText) {
  try {
    parse_env_file("A=1\nno sign\n\n2B=3\n", "vars");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Config);
    EXPECT_THAT(error.what(), HasSubstr("vars, line 2"));
    EXPECT_THAT(error.what(), HasSubstr("no sign"));
    EXPECT_THAT(error.what(), HasSubstr("vars, line 4"));
  }
}

std::vector<std::string> lines_of(const std::vector<std::string>& pieces) {
  std::vector<std::string> lines;
  const LineCutter::Take take = [&](std::string_view line) { lines.emplace_back(line); };
  LineCutter cutter;
  for (const std::string& piece : pieces)
    cutter.feed(piece, take);
  cutter.finish(take);
  return lines;
}

TEST(LineCutter, LinesAreWholeHoweverTheBytesArrive) {
  EXPECT_THAT(lines_of({"a", "b\nc", "\n", "\nd"}), ElementsAre("ab", "c", "", "d"));
  EXPECT_THAT(lines_of({"one\r\ntwo\r\n"}), ElementsAre("one", "two"));
  EXPECT_THAT(lines_of({"one\r", "\ntwo"}), ElementsAre("one", "two"));
  EXPECT_THAT(lines_of({"\r 10%\r 20%", "\r\n"}), ElementsAre(" 10%", " 20%"));
  EXPECT_THAT(lines_of({}), ElementsAre());
}

TEST(LineCutter, LineWithoutAnEndDoesNotGrowForEver) {
  const std::string piece(std::size_t{1} << 20, 'x');
  EXPECT_EQ(lines_of({piece, piece, piece}).size(), 3U);
  EXPECT_EQ(lines_of({piece.substr(1), "\n"}).size(), 1U);
}

TEST(Tail, KeepsTheLastLines) {
  Tail tail(3);
  for (int i = 0; i < 10; ++i)
    tail.add(cat("line ", i));
  EXPECT_THAT(tail.lines(), ElementsAre("line 7", "line 8", "line 9"));
}

}  // namespace
}  // namespace lockstep::launch
