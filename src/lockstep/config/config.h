// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/bucket_bytes.h"

namespace lockstep {

// The configuration as a value: what a user may say, a member a key, a struct a section. The
// defaults stand here and nowhere else. An empty optional means "not said": resolve() derives it,
// or the part it belongs to has its own default. A string member holds one of the words that the
// row of schema.h lists. Paths are relative to the working directory.

/// The size of a mesh axis, or "rest": what the other axes leave of the world.
struct AxisSize {
  std::int64_t ranks = 1;
  bool is_rest = false;
  friend bool operator==(const AxisSize&, const AxisSize&) = default;
};

struct ModelConfig {
  std::optional<std::string> preset;  ///< a named model
  std::optional<std::string> file;    ///< a Hugging Face config.json
  /// A folder with weights: Hugging Face layout or a checkpoint.
  std::optional<std::string> init_from;
  /// Each of these overrides the model's own.
  std::optional<std::int64_t> layers, width, heads, kv_heads, ffn_width, vocab, context;
  std::optional<double> dropout;
  std::optional<bool> tied;
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

struct DataConfig {
  std::vector<std::string> train, valid;  ///< token files
  std::string format = "tokens";
  std::int64_t workers = 1;  ///< threads that prepare batches ahead; changes speed only
  bool shuffle = true;
  bool drop_last = true;
  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

/// In sequences; see resolve.h for how the last three determine each other.
struct BatchConfig {
  std::optional<std::int64_t> sequence;  ///< tokens; the model's context where not said
  std::optional<std::int64_t> micro, accumulation, global;
  friend bool operator==(const BatchConfig&, const BatchConfig&) = default;
};

struct ParallelConfig {
  std::optional<AxisSize> pp, dp_replicate, dp_shard, cp, tp;
  std::int64_t zero = 0;
  std::string tp_kind = "1d";
  std::int64_t tp_depth = 1;
  bool sequence_parallel = false;
  std::optional<std::string> pipeline;
  std::int64_t virtual_stages = 1;
  std::vector<std::int64_t> cuts;
  std::string recompute = "none";
  friend bool operator==(const ParallelConfig&, const ParallelConfig&) = default;
};

struct PrecisionConfig {
  std::string compute = "fp32";
  std::optional<std::string> reduce, wire, master;
  bool autocast = false;
  std::optional<std::string> loss_scale;  ///< "dynamic" or a number
  friend bool operator==(const PrecisionConfig&, const PrecisionConfig&) = default;
};

struct CommConfig {
  std::string backend = "auto";
  double timeout_seconds = 600;
  std::int64_t bucket_bytes = kDefaultBucketBytes;
  std::int64_t prefetch = 1;
  bool static_graph = false;
  std::string uneven = "error";
  friend bool operator==(const CommConfig&, const CommConfig&) = default;
};

struct OffloadConfig {
  std::string parameters = "device";
  std::string optimizer = "device";
  std::optional<std::string> directory;
  friend bool operator==(const OffloadConfig&, const OffloadConfig&) = default;
};

/// Parameters whose name matches the glob `match` take these values; the first group that matches
/// counts.
struct OptimizerGroup {
  std::string match;
  std::optional<double> lr, weight_decay;
  friend bool operator==(const OptimizerGroup&, const OptimizerGroup&) = default;
};

struct OptimizerConfig {
  std::string name = "adamw";
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double momentum = 0;
  double weight_decay = 0.01;
  std::optional<double> clip;  ///< largest norm of the whole gradient
  std::vector<OptimizerGroup> groups;
  friend bool operator==(const OptimizerConfig&, const OptimizerConfig&) = default;
};

struct LrScheduleConfig {
  std::string name = "constant";
  std::int64_t warmup = 0;            ///< steps
  std::optional<std::int64_t> decay;  ///< steps; all that follow the warm-up where not said
  double min_lr = 0;
  std::string scale_with_batch = "none";
  friend bool operator==(const LrScheduleConfig&, const LrScheduleConfig&) = default;
};

struct CheckpointConfig {
  std::int64_t every = 0;  ///< steps; 0: at the end only
  std::int64_t keep = 2;   ///< newest ones
  bool keep_best = false;
  bool async = false;
  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

struct TrainConfig {
  std::optional<std::int64_t> steps;   ///< also the horizon of the learning-rate schedule
  std::optional<std::int64_t> epochs;  ///< with `steps` too, training ends at the earlier one
  std::int64_t eval_every = 0;         ///< steps; 0: at the end only
  std::int64_t log_every = 10;
  std::int64_t seed = 0;
  bool reproducible = false;
  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

struct Config {
  ModelConfig model;
  DataConfig data;
  BatchConfig batch;
  ParallelConfig parallel;
  PrecisionConfig precision;
  CommConfig comm;
  OffloadConfig offload;
  OptimizerConfig optimizer;
  LrScheduleConfig lr_schedule;
  CheckpointConfig checkpoint;
  TrainConfig train;
  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace lockstep
