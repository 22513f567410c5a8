// SPDX-License-Identifier: Apache-2.0
// How ranks that are processes meet, without a launcher.
#include <algorithm>
#include <arpa/inet.h>
#include <filesystem>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/text.h"

#include "support/world_job.h"

namespace lockstep::test {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

TEST(Processes, SumOverRanksAndEndWithStatusZero) {
  for (const int size : {1, 2, 3}) {
    for (const Finished& end :
         run_job({.arguments = {"--steps", "5", "--barrier"}, .size = size})) {
      EXPECT_EQ(end.status, 0) << end.err;
      EXPECT_THAT(end.out, HasSubstr("step 5"));
      EXPECT_EQ(end.err, "");
    }
  }
}

TEST(Joining, NamesTheRankThatNeverCame_LAU_06) {
  const std::vector<Finished> ends =
      run_job({.arguments = {"--timeout-ms", "5000"}, .size = 4, .started = 3});
  ASSERT_EQ(ends.size(), 3U);
  for (const Finished& end : ends) {
    EXPECT_NE(end.status, 0);
    EXPECT_LT(end.seconds, 10);
    EXPECT_THAT(end.err, HasSubstr("missing ranks 3"));
    EXPECT_THAT(end.err, HasSubstr("have 3 of 4"));
  }
}

TEST(Joining, NamesAllRanksThatNeverCame_LAU_06) {
  for (const Finished& end :
       run_job({.arguments = {"--timeout-ms", "3000"}, .size = 5, .started = 2})) {
    EXPECT_NE(end.status, 0);
    EXPECT_LT(end.seconds, 8);
    EXPECT_THAT(end.err, HasSubstr("missing ranks 2, 3, 4"));
  }
}

TEST(Store, ListensAtTheTypedAddressOnly_LAU_23) {
  std::vector<Running> ranks =
      start({.arguments = {"--steps", "20", "--step-ms", "100"}, .size = 2});
  ASSERT_TRUE(ranks[0].wait_for("step 2", seconds(30)));
  const std::string tcp = read_file("/proc/net/tcp");
  // Sockets of the ranks that listen (state 0A) are bound to 127.0.0.1 alone.
  for (const pid_t pid : {ranks[0].pid(), ranks[1].pid()}) {
    std::vector<std::string> inodes;
    for (const auto& entry : std::filesystem::directory_iterator(cat("/proc/", pid, "/fd"))) {
      std::error_code ignored;
      const std::string target = std::filesystem::read_symlink(entry.path(), ignored).string();
      if (target.starts_with("socket:["))
        inodes.push_back(target.substr(8, target.size() - 9));
    }
    int listening = 0;
    for (const std::string& line : split(tcp, '\n')) {
      std::vector<std::string> words;
      for (const std::string& word : split(line, ' ')) {
        if (!word.empty())
          words.push_back(word);
      }
      if (words.size() < 10 || words[3] != "0A")
        continue;
      if (std::count(inodes.begin(), inodes.end(), words[9]) == 0)
        continue;
      ++listening;
      EXPECT_THAT(words[1], testing::StartsWith("0100007F:"));
    }
    EXPECT_GE(listening, 1);
  }
  for (const Finished& end : wait_all(ranks, seconds(30)))
    EXPECT_EQ(end.status, 0) << end.err;
}

TEST(Environment, TellsOfAPortInUseAndOfAMissingMaster) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  const std::string port = cat(ntohs(address.sin_port));
  Command command{.words = {program("programs/world_loop").string()},
                  .environment = {{"RANK", "0"},
                                  {"WORLD_SIZE", "2"},
                                  {"MASTER_ADDR", "127.0.0.1"},
                                  {"MASTER_PORT", port}},
                  .directory = {}};
  Finished end = run(command);
  EXPECT_EQ(end.status, 4);
  EXPECT_THAT(end.err, HasSubstr(cat("port ", port, " is in use")));
  ::close(fd);
  command.environment = {
      {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", "4"}, {"SLURM_NNODES", "2"}};
  end = run(command);
  EXPECT_EQ(end.status, 4);
  EXPECT_THAT(end.err,
              AllOf(HasSubstr("[rank 3]"),
                    HasSubstr("master address is missing"),
                    HasSubstr("MASTER_ADDR"),
                    HasSubstr("Slurm")));
  EXPECT_EQ(end.out, "");
}

}  // namespace
}  // namespace lockstep::test
