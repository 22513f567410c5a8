// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/run_lock.h"

#include <array>
#include <csignal>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/train/pure/run_folder.h"

#include "support/process.h"

namespace lockstep::train {
namespace {

using test::TemporaryFolder;
using testing::HasSubstr;

template <typename Body>
std::string refusal(Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Config);
    return error.what();
  }
  return "none";
}

TEST(RunLock, NamesTheProcessThatHasTheDirectory) {
  const TemporaryFolder run;
  const RunLock lock(run.path());
  const auto in_use = HasSubstr(cat("in use by pid ", getpid(), " on host "));
  EXPECT_THAT(refusal([&] { RunLock second(run.path()); }), in_use);
  EXPECT_THAT(refusal([&] { check_not_in_use(run.path()); }), in_use);
}

TEST(RunLock, RefusesToResumeIntoARunThatIsAlive) {
  const TemporaryFolder run;
  const RunLock lock(run.path());
  const RunPlaces places{.out = run.path(), .resume_from = run / "checkpoints/step-000002"};
  EXPECT_THAT(refusal([&] { check_out(places); }), HasSubstr("in use by pid"));
}

TEST(RunLock, EndsWithItsOwnerAndLeavesNoLockBehind) {
  const TemporaryFolder run;
  {
    const RunLock first(run.path());
  }
  EXPECT_EQ(refusal([&] { const RunLock second(run.path()); }), "none");
}

TEST(RunLock, IsTakenBackFromAKilledProcess) {
  const TemporaryFolder run;
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const RunLock lock(run.path());
    if (write(ready[1], "x", 1) != 1)
      _exit(1);
    for (;;)
      pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_THAT(refusal([&] { check_not_in_use(run.path()); }), HasSubstr(cat("pid ", child, " ")));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(refusal([&] { const RunLock next(run.path()); }), "none");
  close(ready[0]);
  close(ready[1]);
}

TEST(RunLock, LooksWithoutWriting) {
  const TemporaryFolder run;
  check_not_in_use(run.path());
  EXPECT_FALSE(std::filesystem::exists(run / ".lock"));
  check_not_in_use(run / "not there");
}

}  // namespace
}  // namespace lockstep::train
