// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/metrics.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& problem, int code) {
  throw Error({.fault = Fault::Storage,
               .where = {.subject = path.string()},
               .problem = problem,
               .cause = std::strerror(code),
               .next = code == ENOSPC
                           ? "Free space on that disk or choose another with --out; then --resume"
                           : "Check the path and its permissions"});
}

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  const nlohmann::ordered_json json = {{"step", m.step},
                                       {"loss", m.loss},
                                       {"grad_norm", m.grad_norm},
                                       {"lr", m.lr},
                                       {"step_tokens", m.step_tokens},
                                       {"total_tokens", m.total_tokens},
                                       {"tokens_per_second", m.tokens_per_second},
                                       {"step_ms", m.step_ms},
                                       {"data_ms", m.data_ms},
                                       {"forward_ms", m.forward_ms},
                                       {"backward_ms", m.backward_ms},
                                       {"exposed_comm_ms", m.exposed_comm_ms},
                                       {"optimizer_ms", m.optimizer_ms},
                                       {"sent_bytes", m.sent_bytes},
                                       {"peak_memory_bytes", m.peak_memory_bytes},
                                       {"loss_scale", m.loss_scale},
                                       {"skipped", m.skipped}};
  return json.dump();
}

std::string to_json_line(const Evaluation& evaluation) {
  const nlohmann::ordered_json json = {{"step", evaluation.step},
                                       {"valid_loss", evaluation.valid_loss}};
  return json.dump();
}

void cut_metrics(const fs::path& file, std::int64_t last_step) {
  if (!fs::exists(file))
    return;
  std::ifstream in(file);
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
      continue;
    if (json["step"].get<std::int64_t>() <= last_step)
      kept += line + "\n";
  }
  write_file_atomically(file, kept);
}

MetricsFile::MetricsFile(fs::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0)
    refuse(path_, "the metrics file cannot be opened", errno);
}

MetricsFile::~MetricsFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

void MetricsFile::add(const std::string& json_line) {
  const std::string line = json_line + "\n";
  std::size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = ::write(fd_, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      refuse(path_, "a line of metrics cannot be written", errno);
    written += static_cast<std::size_t>(count);
  }
}

}  // namespace lockstep::train
