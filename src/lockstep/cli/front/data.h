// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace lockstep::cli {

/// `lockstep data prepare FILES`: text to memory-mapped token files.
std::function<int()> make_data(CLI::App& app);

}  // namespace lockstep::cli
