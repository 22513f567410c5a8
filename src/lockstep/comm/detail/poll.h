// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace lockstep::comm {

/// The pause between two looks into the store: short at first, because ranks usually arrive together, then up to 5 ms.
class Poll {
 public:
  void pause() {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min<std::chrono::microseconds>(pause_ * 3 / 2, std::chrono::milliseconds(5));
  }

 private:
  std::chrono::microseconds pause_{100};
};

}  // namespace lockstep::comm
