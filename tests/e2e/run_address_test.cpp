// SPDX-License-Identifier: Apache-2.0
// Where the ranks of one machine meet: the address as typed, and a port that is never unowned.
#include <arpa/inet.h>
#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/run_support.h"

namespace lockstep::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

sockaddr_in ipv4(const char* host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}

bool connects(const char* host, int port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const sockaddr_in address = ipv4(host, port);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return connected;
}

/// A port of 127.0.0.1 that somebody listens on while the object lives.
class Held {
 public:
  Held() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = ipv4("127.0.0.1", 0);
    socklen_t length = sizeof address;
    bind(fd_, reinterpret_cast<const sockaddr*>(&address), length);
    listen(fd_, 1);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length);
    port = ntohs(address.sin_port);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held() { release(); }
  void release() {
    if (fd_ >= 0)
      close(fd_);
    fd_ = -1;
  }
  int port = 0;

 private:
  int fd_;
};

int port_that_is_free() { return Held().port; }

TEST(RunAddress, UsesTheAddressAsTypedAndNeverItsReverseName_LAU_01) {
  Command command = run_ranks_command(
      {"-n", "2", "--master-addr", "127.0.0.1", "--master-port", cat(port_that_is_free())},
      {"join", "env:MASTER_ADDR", "barrier:met", "finish"});
  command.environment["LD_PRELOAD"] = program("programs/libreverse_lookup.so").string();
  command.environment["LOCKSTEP_LOG"] = "info";
  const Finished job = run(command);
  EXPECT_EQ(job.status, 0) << job.err;
  EXPECT_LT(job.seconds, 5);
  EXPECT_EQ(count(job.out, "MASTER_ADDR=127.0.0.1\n"), 2U);
  EXPECT_THAT(job.out + job.err, Not(HasSubstr("box-q")));
}

TEST(RunAddress, TwoJobsAtOnceTakePortsOfTheirOwn_LAU_07) {
  const Command command =
      run_ranks_command({"-n", "2"}, {"join", "barrier:met", "sleep:1000", "finish"});
  Running first(command);
  Running second(command);
  EXPECT_EQ(first.wait(seconds(20)).status, 0);
  EXPECT_EQ(second.wait(seconds(20)).status, 0);
}

TEST(RunAddress, BusyPortIsNamedWithTheChoices_LAU_07) {
  const Held held;
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--master-port", cat(held.port)},
        std::vector<std::string>{"--rdzv-endpoint", cat("127.0.0.1:", held.port)}}) {
    const Finished job = run(run_ranks_command(options, {"print:started"}));
    EXPECT_EQ(job.status, 4);
    EXPECT_LT(job.seconds, 5);
    EXPECT_THAT(job.err, HasSubstr(cat(held.port)));
    EXPECT_THAT(job.err, HasSubstr("--master-port"));
    EXPECT_THAT(job.err, HasSubstr("free one"));
    EXPECT_EQ(job.out, "");
  }
}

TEST(RunAddress, FiftyLaunchesTenAtATimeNeverClash_LAU_08) {
  constexpr int kLaunches = 50;
  constexpr std::size_t kAtOnce = 10;
  const Command command = run_ranks_command({"-n", "2"}, {"join", "barrier:met", "finish"});
  std::vector<std::unique_ptr<Running>> running;
  int succeeded = 0;
  for (int started = 0; started < kLaunches || !running.empty();) {
    while (started < kLaunches && running.size() < kAtOnce) {
      running.push_back(std::make_unique<Running>(command));
      ++started;
    }
    const Finished job = running.front()->wait(seconds(60));
    EXPECT_EQ(job.status, 0) << job.err;
    succeeded += job.status == 0 ? 1 : 0;
    running.erase(running.begin());
  }
  EXPECT_EQ(succeeded, kLaunches);
}

TEST(RunAddress, Ipv6AddressFormsAJob_LAU_12) {
  const int port = port_that_is_free();
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"-n", "2", "--master-addr", "::1", "--master-port", cat(port)},
        std::vector<std::string>{"-n", "2", "--rdzv_endpoint", cat("[::1]:", port)}}) {
    const Finished job = run(run_ranks_command(
        options, {"join", "env:MASTER_ADDR", "env:MASTER_PORT", "barrier:met", "finish"}));
    EXPECT_EQ(job.status, 0) << job.err;
    EXPECT_EQ(count(job.out, "MASTER_ADDR=::1\n"), 2U);
    EXPECT_EQ(count(job.out, cat("MASTER_PORT=", port, "\n")), 2U);
  }
  const Finished job =
      run(run_ranks_command({"--rdzv-endpoint", "fe80::1:29500"}, {"print:started"}));
  EXPECT_EQ(job.status, 2);
  EXPECT_THAT(job.err, HasSubstr("ambiguous"));
}

TEST(RunAddress, StoreListensOnTheGivenAddressAndNoOther_LAU_23) {
  for (const char* given : {"127.0.0.1", "127.0.0.3"}) {
    Command command =
        run_ranks_command({"-n", "1", "--master-addr", given},
                          {"join", "barrier:met", "env:MASTER_PORT", "sleep:60000", "finish"});
    command.environment["LOCKSTEP_LOG"] = "info";
    Running job(command);
    ASSERT_TRUE(job.wait_for("MASTER_PORT=", seconds(20)));
    const std::string printed = job.printed();
    const int port = static_cast<int>(
        parse_int(trim(printed.substr(printed.find("MASTER_PORT=") + 12, 5))).value_or(0));
    EXPECT_TRUE(connects(given, port));
    EXPECT_FALSE(connects("127.0.0.2", port));
    EXPECT_THAT(printed, HasSubstr(cat("listens on ", given, ":", port)));
    job.signal(SIGTERM);
    EXPECT_EQ(job.wait(seconds(10)).status, 143);
  }
}

TEST(RunAddress, SeveralNodesOnOneMachineMeetAtTheGivenPort) {
  const int port = port_that_is_free();
  const auto node = [&](int rank) {
    return run_ranks_command({"-n",
                              "2",
                              "--nnodes",
                              "2",
                              "--node-rank",
                              cat(rank),
                              "--master-addr",
                              "127.0.0.1",
                              "--master-port",
                              cat(port)},
                             {"join",
                              "env:RANK",
                              "env:WORLD_SIZE",
                              "barrier:met",
                              "0@sleep:300",
                              "1@sleep:300",
                              "finish"});
  };
  Running first(node(0));
  ASSERT_TRUE(first.wait_for("RANK=1", seconds(10)));
  const Finished other = run(node(1));
  EXPECT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("[3] RANK=3"));
  EXPECT_THAT(other.out, HasSubstr("[2] WORLD_SIZE=4"));
  EXPECT_EQ(first.wait(seconds(10)).status, 0);
}

TEST(RunAddress, AddressOfAnotherMachineIsRefused) {
  const Finished job = run(run_ranks_command({"--master-addr", "192.0.2.7"}, {"print:started"}));
  EXPECT_EQ(job.status, 4);
  EXPECT_THAT(job.err, HasSubstr("192.0.2.7"));
  EXPECT_THAT(job.err, HasSubstr("does not have the address"));
}

}  // namespace
}  // namespace lockstep::test
