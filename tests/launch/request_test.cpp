// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/launch/rank_environment.h"
#include "lockstep/launch/threads.h"

namespace lockstep::launch {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Request request_for(std::vector<std::string> program) {
  Request request;
  request.program = std::move(program);
  return request;
}

std::string refusal(const Request& request) {
  try {
    options_of(request, {});
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(Threads, PhysicalCoresOverLocalRanksAtLeastOne_PRF_01) {
  EXPECT_EQ(threads_per_rank(16, 4, std::nullopt), 4);
  EXPECT_EQ(threads_per_rank(16, 3, std::nullopt), 5);
  EXPECT_EQ(threads_per_rank(16, 32, std::nullopt), 1);
  EXPECT_EQ(threads_per_rank(96, 7, std::nullopt), 13);
  EXPECT_EQ(threads_per_rank(16, 4, 2), 2);
  EXPECT_GE(physical_cores(), 1);
}

TEST(Request, RanksByNumberOrByWhatTheMachineHas) {
  const Machine cpu{.physical_cores = 6};
  const Machine gpu{.physical_cores = 6, .devices = 4};
  EXPECT_EQ(ranks_of("3", cpu), 3);
  EXPECT_EQ(ranks_of("auto", cpu), 6);
  EXPECT_EQ(ranks_of("cpu", gpu), 6);
  EXPECT_EQ(ranks_of("auto", gpu), 4);
  EXPECT_EQ(ranks_of("gpu", gpu), 4);
  EXPECT_THROW(ranks_of("gpu", cpu), Error);
  EXPECT_THROW(ranks_of("-1", cpu), Error);
  EXPECT_THROW(ranks_of("2x", cpu), Error);
}

TEST(Request, OneNodeWithoutAPortTakesAFreeOne) {
  const Options options = options_of(request_for({"a"}), {});
  EXPECT_EQ(options.address, "127.0.0.1");
  EXPECT_FALSE(options.port.has_value());
  EXPECT_EQ(options.shutdown_timeout, std::chrono::seconds(8));
}

TEST(Request, SeveralNodesAgreeOnAPortAndNeedAnAddress) {
  Request request = request_for({"a"});
  request.nodes = "3";
  EXPECT_THAT(refusal(request), HasSubstr("--master-addr"));
  request.address = "10.0.0.1";
  request.node_rank = 2;
  request.ranks = "4";
  const Options options = options_of(request, {});
  EXPECT_EQ(options.port, 29500);
  EXPECT_EQ(world_size(options), 12);
  EXPECT_EQ(rank_of(options, 1), 9);
  request.node_rank = 3;
  EXPECT_THAT(refusal(request), HasSubstr("0 to 2"));
}

TEST(Request, AddressIsKeptAsTyped_LAU_01) {
  Request request = request_for({"a"});
  request.address = "127.000.0.1";
  request.port = "4000";
  EXPECT_EQ(options_of(request, {}).address, "127.000.0.1");
  request.address = "[::1]";
  EXPECT_EQ(options_of(request, {}).address, "::1");
}

TEST(Request, AddressGivenTwiceIsRefused) {
  Request request = request_for({"a"});
  request.endpoint = "localhost:1";
  request.port = "2";
  EXPECT_THAT(refusal(request), HasSubstr("twice"));
  request.endpoint.clear();
  request.standalone = true;
  EXPECT_THAT(refusal(request), HasSubstr("--standalone"));
}

TEST(Request, RendezvousTimeoutIsReadAndTheOtherKeysOfTorchrunAreTaken) {
  Request request = request_for({"a"});
  request.rendezvous_conf = "timeout=5,read_timeout=60";
  EXPECT_EQ(options_of(request, {}).rendezvous_timeout, std::chrono::seconds(5));
  request.rendezvous_conf = "timeout=soon";
  EXPECT_THAT(refusal(request), HasSubstr("timeout=soon"));
}

TEST(Request, PythonIsPutBeforeScriptsAndModulesOnly) {
  const Machine machine{.python = "/opt/python"};
  EXPECT_THAT(program_words(request_for({"train.py", "-x"}), machine),
              ElementsAre("/opt/python", "-u", "train.py", "-x"));
  EXPECT_THAT(program_words(request_for({"./train", "-x"}), machine), ElementsAre("./train", "-x"));
  Request module = request_for({"pkg.train"});
  module.module = true;
  EXPECT_THAT(program_words(module, {}), ElementsAre("python3", "-u", "-m", "pkg.train"));
  Request bare = request_for({"train.py"});
  bare.no_python = true;
  EXPECT_THAT(program_words(bare, machine), ElementsAre("train.py"));
}

TEST(RankEnvironment, FileWinsOverTheCallersAndRankVariablesOverBoth) {
  Options options;
  options.local_ranks = 3;
  options.threads = 5;
  options.environment = {{"A", "file"}, {"RANK", "77"}};
  const auto variables =
      rank_environment(options,
                       {.local_rank = 2, .attempt = 1, .port = 4242},
                       {"A=caller", "B=caller", "RANK=99", "LOCKSTEP_AGENT=old"});
  EXPECT_THAT(variables, Contains("A=file"));
  EXPECT_THAT(variables, Contains("B=caller"));
  EXPECT_THAT(variables, Contains("RANK=2"));
  EXPECT_THAT(variables, Contains("MASTER_PORT=4242"));
  EXPECT_THAT(variables, Contains("TORCHELASTIC_RESTART_COUNT=1"));
  EXPECT_THAT(variables, Contains("OMP_NUM_THREADS=5"));
  EXPECT_THAT(variables, Not(Contains("RANK=99")));
  EXPECT_THAT(rank_environment(options, {}, {"OMP_NUM_THREADS=2"}), Contains("OMP_NUM_THREADS=2"));
}

}  // namespace
}  // namespace lockstep::launch
