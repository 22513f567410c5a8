// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::train {

/// What one optimizer step did: a line of metrics.jsonl. Times are wall time of rank 0.
struct StepMetrics {
  std::int64_t step = 0;  ///< from 1
  double loss = 0;        ///< mean over the global tokens
  double grad_norm = 0;   ///< of the mean gradient, before clipping
  double lr = 0;
  std::int64_t step_tokens = 0;  ///< of all ranks
  std::int64_t total_tokens = 0;
  double tokens_per_second = 0;
  double step_ms = 0;
  double data_ms = 0;  ///< waited for data
  double forward_ms = 0;
  double backward_ms = 0;
  double exposed_comm_ms = 0;  ///< waited for communication, part of the others
  double optimizer_ms = 0;
  std::vector<std::int64_t> sent_bytes;         ///< of this step, a rank each
  std::vector<std::int64_t> peak_memory_bytes;  ///< since the start, a rank each
  double loss_scale = 1;
  std::int64_t skipped = 0;  ///< steps left out because of overflow, so far
};

/// One evaluation on the validation data: a line of evaluations.jsonl.
struct Evaluation {
  std::int64_t step = 0;  ///< the last one done before it
  double valid_loss = 0;  ///< mean over all tokens of the validation data
};

/// One JSON object without a line end; numbers read back to the same double.
std::string to_json_line(const StepMetrics& metrics);
std::string to_json_line(const Evaluation& evaluation);

/// Cuts a file of such lines to the lines of steps up to `last_step`: what a run wrote after the checkpoint that it resumes from, and
/// a last line that was cut by a crash, go. Nothing where there is no file. Throws Storage; Config naming any other line that no
/// run has written, and the file stays as it is.
void cut_metrics(const std::filesystem::path& file, std::int64_t last_step);
/// The same check without the cut.
void check_metrics(const std::filesystem::path& file);

/// Appends whole lines, each written at once.
class MetricsFile {
 public:
  explicit MetricsFile(std::filesystem::path path);
  ~MetricsFile();
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  /// Throws Storage, for instance on a full disk.
  void add(const std::string& json_line);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace lockstep::train
