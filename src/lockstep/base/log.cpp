// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "lockstep/base/env.h"

namespace lockstep {

namespace {

spdlog::logger make_logger() {
  spdlog::logger logger("lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger.set_pattern("lockstep %l: %v");
  logger.set_level(spdlog::level::from_str(env("LOCKSTEP_LOG").value_or("warning")));
  return logger;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::Debug: return spdlog::level::debug;
    case LogLevel::Info: return spdlog::level::info;
    case LogLevel::Warning: return spdlog::level::warn;
    case LogLevel::Error: return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void log(LogLevel level, std::string_view text) {
  static spdlog::logger logger = make_logger();  // the process's one standard error
  logger.log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace lockstep
