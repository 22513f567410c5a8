// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/metrics.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <string_view>
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

std::string cut(const std::string& line) {
  constexpr std::size_t kMost = 60;
  return line.size() <= kMost ? cat("'", line, "'") : cat("'", line.substr(0, kMost), "...'");
}

/// The step of a line that to_json_line wrote; none for anything else.
std::optional<std::int64_t> step_in(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer())
    return std::nullopt;
  return json["step"].get<std::int64_t>();
}

/// The beginning of such a line, as a crash or a full disk leaves it.
bool is_torn(std::string_view line) {
  constexpr std::string_view kBegin = "{\"step\":";
  const std::size_t size = std::min(line.size(), kBegin.size());
  return line.substr(0, size) == kBegin.substr(0, size);
}

/// Lines of steps up to `last_step`, or an error for a line that no run has written.
std::string lines_up_to(const fs::path& file, std::int64_t last_step) {
  std::ifstream in(file);
  std::string kept;
  std::int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (const auto step = step_in(line)) {
      if (*step <= last_step)
        kept += line + "\n";
    } else if (!(in.peek() == std::ifstream::traits_type::eof() && is_torn(line))) {
      throw Error({.fault = Fault::Config,
                   .where = {.subject = cat(file.string(), ", line ", number)},
                   .problem = "it is no line of metrics, and resuming would remove it",
                   .expected = "a JSON object with a step on every line",
                   .found = cut(line),
                   .next = "Name another file by --metrics, or move this one away"});
    }
  }
  return kept;
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
  write_file_atomically(file, lines_up_to(file, last_step));
}

void check_metrics(const fs::path& file) {
  if (fs::exists(file))
    lines_up_to(file, 0);
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
