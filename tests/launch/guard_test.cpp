// SPDX-License-Identifier: Apache-2.0
#include "lockstep/launch/guard.h"

#include <array>
#include <chrono>
#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "lockstep/base/text.h"
#include "lockstep/launch/process.h"

#include "support/process.h"

namespace lockstep::launch {
namespace {

bool ends_within(pid_t pid, std::chrono::seconds timeout) {
  const auto stop = std::chrono::steady_clock::now() + timeout;
  while (std::chrono::steady_clock::now() < stop) {
    const std::string stat = test::read_file(cat("/proc/", pid, "/stat"));
    if (stat.empty() || stat.find(") Z ") != std::string::npos)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

// The launcher dies as soon as the program runs: before it could tell the guard of the new process
// itself. Nothing in the program's environment leads to it.
TEST(Guard, KnowsAProcessFromBeforeItsProgramRuns) {
  const test::TemporaryFolder folder;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    const Guard guard("guard-test", folder / "job");
    const pid_t pid = start_process(
        {.words = {"/bin/sleep", "300"}, .environment = {"A=b"}, .guard = guard.pipe()});
    [[maybe_unused]] const ssize_t told = write(ends[1], &pid, sizeof pid);
    kill(getpid(), SIGKILL);
  }
  close(ends[1]);
  pid_t pid = 0;
  ASSERT_EQ(read(ends[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  close(ends[0]);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(ends_within(pid, std::chrono::seconds(10)));
  kill(pid, SIGKILL);
}

}  // namespace
}  // namespace lockstep::launch
