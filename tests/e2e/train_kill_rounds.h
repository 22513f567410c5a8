// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <iostream>
#include <random>
#include <thread>

#include "e2e/train_support.h"

namespace lockstep::test {

/// Kills a run of two ranks hard, again and again at a random moment after its first save.
class KilledTrain : public Train {
 protected:
  /// Each time the checkpoint that is left must load whole and the run must go on where it says.
  void kill_rounds(int rounds, std::uint32_t seed) {
    std::mt19937 draw(seed);
    std::cout << "seed " << seed << std::endl;
    for (int round = 0; round < rounds; ++round) {
      const int delay_ms = static_cast<int>(draw() % 300);
      SCOPED_TRACE(cat("seed ", seed, ", round ", round, ", killed after ", delay_ms, " ms"));
      kill_once(cat("killed", round), std::chrono::milliseconds(delay_ms));
      if (HasFatalFailure())
        return;
      fs::remove_all(folder_ / cat("killed", round));
    }
  }

 private:
  void kill_once(const std::string& out, std::chrono::milliseconds delay) {
    Command job = command(2,
                          out,
                          {"--set",
                           "train.steps=100000",
                           "--set",
                           "checkpoint.every=1",
                           "--set",
                           "checkpoint.keep=1"});
    job.environment["LOCKSTEP_TEST_JOB"] = folder_.path().string();
    Running run(job);
    ASSERT_TRUE(run.wait_for("saved", std::chrono::seconds(40))) << run.printed();
    std::this_thread::sleep_for(delay);
    for (const pid_t process : processes_with("LOCKSTEP_TEST_JOB", folder_.path().string()))
      ::kill(process, SIGKILL);
    run.wait(std::chrono::seconds(10));
    ASSERT_FALSE(generated(folder_ / out).empty());
    const int saved = step_of_latest(out);
    const Finished resumed = train(2, out, {"--resume", "--steps", cat(saved + 1)});
    ASSERT_EQ(resumed.status, 0) << resumed.out << resumed.err;
    EXPECT_EQ(step_of_latest(out), saved + 1);
    for (const auto& entry : fs::directory_iterator(folder_ / out / "checkpoints"))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
  }

  int step_of_latest(const std::string& out) const {
    const std::string name = fs::read_symlink(folder_ / out / "latest").filename().string();
    return static_cast<int>(parse_int(name.substr(name.find('-') + 1)).value_or(-1));
  }
};

inline std::uint32_t any_seed() { return std::random_device()(); }

}  // namespace lockstep::test
