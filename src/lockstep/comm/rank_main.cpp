// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/rank_main.h"

#include <exception>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"

namespace lockstep {

namespace {

int told(const std::exception& error, World* world) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  log(LogLevel::Error,
      ours != nullptr || world == nullptr ? std::string(error.what())
                                          : cat("[rank ", world->rank().value, "] ", error.what()));
  if (world != nullptr)
    world->fail(error);
  return ours != nullptr ? ours->exit_status() : static_cast<int>(Fault::Internal);
}

int run_body(World world, const std::function<void(World&)>& body) {
  try {
    body(world);
    world.finish();
    return 0;
  } catch (const std::exception& error) {
    return told(error, &world);
  }
}

}  // namespace

int rank_main(const std::function<void(World&)>& body, const WorldOptions& options) {
  try {
    return run_body(World::from_environment(options), body);
  } catch (const std::exception& error) {
    return told(error, nullptr);
  }
}

}  // namespace lockstep
