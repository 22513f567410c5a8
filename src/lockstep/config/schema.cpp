// SPDX-License-Identifier: Apache-2.0
#include "lockstep/config/schema.h"

namespace lockstep::schema {

namespace {

// No model or job is larger, and products of these stay within 64 bits: numbers of parameters, of ranks, of a step's sequences.
constexpr double kMostLayers = 10'000;
constexpr double kMostWidth = 1 << 20;
constexpr double kMostFfnWidth = 1 << 22;
constexpr double kMostTokens = 1 << 24;
constexpr double kMostSequences = 1 << 20;
constexpr double kMostGlobal = 1e12;
constexpr double kMostAxis = 4096;
constexpr double kMostSeconds = 365 * 86'400;

template <typename Section, typename Member>
std::function<Field(Config&)> at(Section Config::* section, Member Section::* member) {
  return [section, member](Config& config) { return Field(&(config.*section.*member)); };
}

template <typename Member>
std::function<Field(OptimizerGroup&)> in_group(Member OptimizerGroup::* member) {
  return [member](OptimizerGroup& group) { return Field(&(group.*member)); };
}

std::vector<Row<Config>> make_rows() {
  using C = Config;
  const std::vector<std::string> floats = {"fp64", "fp32", "bf16", "fp16"};
  const std::vector<std::string> places = {"device", "host", "file"};
  // clang-format off: a flat table
  return {
      {"model", "preset", at(&C::model, &ModelConfig::preset), "a named model"},
      {"model", "file", at(&C::model, &ModelConfig::file), "a Hugging Face config.json"},
      {"model", "init_from", at(&C::model, &ModelConfig::init_from),
       "a Hugging Face folder or a checkpoint to start from"},
      {"model", "layers", at(&C::model, &ModelConfig::layers), "number of blocks",
       {}, 1, kMostLayers},
      {"model", "width", at(&C::model, &ModelConfig::width), "width of the model",
       {}, 1, kMostWidth},
      {"model", "heads", at(&C::model, &ModelConfig::heads), "attention heads", {}, 1, kMostWidth},
      {"model", "kv_heads", at(&C::model, &ModelConfig::kv_heads),
       "heads of keys and values", {}, 1, kMostWidth},
      {"model", "ffn_width", at(&C::model, &ModelConfig::ffn_width),
       "width inside the feed-forward part", {}, 1, kMostFfnWidth},
      {"model", "vocab", at(&C::model, &ModelConfig::vocab),
       "size of the vocabulary, at least the data's; by default the preset's or file's",
       {}, 1, kMostTokens},
      {"model", "context", at(&C::model, &ModelConfig::context),
       "longest sequence, in tokens", {}, 1, kMostTokens},
      {"model", "dropout", at(&C::model, &ModelConfig::dropout),
       "share of values dropped in training", {}, 0, 0.999},
      {"model", "tied", at(&C::model, &ModelConfig::tied), "one table for embedding and head"},

      {"data", "train", at(&C::data, &DataConfig::train), "token file or files to train on"},
      {"data", "valid", at(&C::data, &DataConfig::valid), "token file or files to evaluate on"},
      {"data", "format", at(&C::data, &DataConfig::format), "what the files hold", {"tokens"}},
      {"data", "workers", at(&C::data, &DataConfig::workers),
       "threads that prepare batches ahead", {}, 1, 256},
      {"data", "shuffle", at(&C::data, &DataConfig::shuffle), "a new order in every epoch"},
      {"data", "drop_last", at(&C::data, &DataConfig::drop_last),
       "drop what does not fill a global batch, else repeat samples"},

      {"batch", "sequence", at(&C::batch, &BatchConfig::sequence),
       "tokens of a sequence; by default the model's context", {}, 1, kMostTokens},
      {"batch", "micro", at(&C::batch, &BatchConfig::micro),
       "sequences a rank handles at once", {}, 1, kMostSequences},
      {"batch", "accumulation", at(&C::batch, &BatchConfig::accumulation),
       "micro batches of a step", {}, 1, kMostSequences},
      {"batch", "global", at(&C::batch, &BatchConfig::global),
       "sequences of a step over all ranks", {}, 1, kMostGlobal},

      {"parallel", "pp", at(&C::parallel, &ParallelConfig::pp),
       "pipeline stages, or \"rest\"", {}, 1, kMostAxis},
      {"parallel", "dp_replicate", at(&C::parallel, &ParallelConfig::dp_replicate),
       "whole copies, or \"rest\"", {}, 1, kMostAxis},
      {"parallel", "dp_shard", at(&C::parallel, &ParallelConfig::dp_shard),
       "ranks that shard one copy, or \"rest\"", {}, 1, kMostAxis},
      {"parallel", "cp", at(&C::parallel, &ParallelConfig::cp),
       "ranks that share a sequence, or \"rest\"", {}, 1, kMostAxis},
      {"parallel", "tp", at(&C::parallel, &ParallelConfig::tp),
       "ranks that share each matrix, or \"rest\"", {}, 1, kMostAxis},
      {"parallel", "zero", at(&C::parallel, &ParallelConfig::zero),
       "sharded: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too", {}, 0, 3},
      {"parallel", "tp_kind", at(&C::parallel, &ParallelConfig::tp_kind),
       "how matrices are cut", {"1d", "2d", "2.5d", "3d"}},
      {"parallel", "tp_depth", at(&C::parallel, &ParallelConfig::tp_depth), "depth of 2.5d", {}, 1},
      {"parallel", "sequence_parallel", at(&C::parallel, &ParallelConfig::sequence_parallel),
       "split norms and dropout over tp too"},
      {"parallel", "pipeline", at(&C::parallel, &ParallelConfig::pipeline), "pipeline schedule"},
      {"parallel", "virtual_stages", at(&C::parallel, &ParallelConfig::virtual_stages),
       "chunks a pipeline rank holds", {}, 1},
      {"parallel", "cuts", at(&C::parallel, &ParallelConfig::cuts),
       "first block of every stage but the first", {}, 1},
      {"parallel", "recompute", at(&C::parallel, &ParallelConfig::recompute),
       "forward again in backward", {"none", "full", "selective", "every:N"}},

      {"precision", "compute", at(&C::precision, &PrecisionConfig::compute),
       "type of forward and backward", floats},
      {"precision", "reduce", at(&C::precision, &PrecisionConfig::reduce),
       "type gradients are summed in; fp64 for fp64, else fp32", floats},
      {"precision", "wire", at(&C::precision, &PrecisionConfig::wire),
       "type gradients travel in; by default as reduce", floats},
      {"precision", "master", at(&C::precision, &PrecisionConfig::master),
       "second copy of the parameters; fp32 for 16-bit compute, else none", {"fp32", "none"}},
      {"precision", "autocast", at(&C::precision, &PrecisionConfig::autocast),
       "libtorch's autocast instead of the engine's policy"},
      {"precision", "loss_scale", at(&C::precision, &PrecisionConfig::loss_scale),
       "\"dynamic\" or a number, for fp16", {"dynamic", "N"}},

      {"comm", "backend", at(&C::comm, &CommConfig::backend),
       "what carries collectives of CPU tensors; shm for ranks of one machine, auto is gloo",
       {"auto", "gloo", "shm"}},
      {"comm", "timeout_seconds", at(&C::comm, &CommConfig::timeout_seconds),
       "longest wait for another rank", {}, 0.1, kMostSeconds},
      {"comm", "bucket_bytes", at(&C::comm, &CommConfig::bucket_bytes),
       "gradients sent together; smaller overlaps more, larger costs less per byte", {}, 1},
      {"comm", "prefetch", at(&C::comm, &CommConfig::prefetch), "units gathered ahead", {}, 0},
      {"comm", "static_graph", at(&C::comm, &CommConfig::static_graph),
       "promise that every step uses the same parameters (checked)"},
      {"comm", "uneven", at(&C::comm, &CommConfig::uneven),
       "when a rank runs out of data", {"error", "join", "join-active", "stop"}},

      {"offload", "parameters", at(&C::offload, &OffloadConfig::parameters),
       "where sharded parameters rest", places},
      {"offload", "optimizer", at(&C::offload, &OffloadConfig::optimizer),
       "where optimizer state rests", places},
      {"offload", "directory", at(&C::offload, &OffloadConfig::directory),
       "folder of offloaded files"},

      {"optimizer", "name", at(&C::optimizer, &OptimizerConfig::name),
       "update rule", {"adamw", "sgd"}},
      {"optimizer", "lr", at(&C::optimizer, &OptimizerConfig::lr), "learning rate", {}, 0},
      {"optimizer", "betas", at(&C::optimizer, &OptimizerConfig::betas),
       "decay of the two moments", {}, 0, 0.9999999},
      {"optimizer", "eps", at(&C::optimizer, &OptimizerConfig::eps),
       "added to the root of the second moment", {}, 0},
      {"optimizer", "momentum", at(&C::optimizer, &OptimizerConfig::momentum),
       "momentum of sgd", {}, 0, 0.9999999},
      {"optimizer", "weight_decay", at(&C::optimizer, &OptimizerConfig::weight_decay),
       "decoupled decay of matrices and vectors alike", {}, 0},
      {"optimizer", "clip", at(&C::optimizer, &OptimizerConfig::clip),
       "largest norm of the whole gradient; not clipped by default", {}, 0},

      {"lr_schedule", "name", at(&C::lr_schedule, &LrScheduleConfig::name),
       "shape over the steps", {"constant", "linear", "cosine", "wsd"}},
      {"lr_schedule", "warmup", at(&C::lr_schedule, &LrScheduleConfig::warmup),
       "steps of the rise from 0", {}, 0},
      {"lr_schedule", "decay", at(&C::lr_schedule, &LrScheduleConfig::decay),
       "steps of the fall; by default all after the warm-up", {}, 0},
      {"lr_schedule", "min_lr", at(&C::lr_schedule, &LrScheduleConfig::min_lr),
       "learning rate at the end", {}, 0},
      {"lr_schedule", "scale_with_batch", at(&C::lr_schedule, &LrScheduleConfig::scale_with_batch),
       "learning rate times data-parallel size, or its root", {"none", "linear", "sqrt"}},

      {"checkpoint", "every", at(&C::checkpoint, &CheckpointConfig::every),
       "steps between checkpoints; 0: at the end only", {}, 0},
      {"checkpoint", "keep", at(&C::checkpoint, &CheckpointConfig::keep),
       "newest checkpoints that stay", {}, 1},
      {"checkpoint", "keep_best", at(&C::checkpoint, &CheckpointConfig::keep_best),
       "keep the one with the lowest validation loss too"},
      {"checkpoint", "async", at(&C::checkpoint, &CheckpointConfig::async),
       "write while training goes on"},

      {"train", "steps", at(&C::train, &TrainConfig::steps),
       "updates in all, and the horizon of lr_schedule", {}, 1},
      {"train", "epochs", at(&C::train, &TrainConfig::epochs), "passes over the data", {}, 1},
      {"train", "eval_every", at(&C::train, &TrainConfig::eval_every),
       "steps between evaluations; 0: at the end only", {}, 0},
      {"train", "log_every", at(&C::train, &TrainConfig::log_every),
       "steps between lines on the terminal", {}, 1},
      {"train", "seed", at(&C::train, &TrainConfig::seed),
       "of initialisation, data order and dropout", {}, 0},
      {"train", "reproducible", at(&C::train, &TrainConfig::reproducible),
       "equal bits on 1, 2, 4 and 8 ranks"},
  };
  // clang-format on
}

}  // namespace

const std::vector<Row<Config>>& rows() {
  static const std::vector<Row<Config>> table = make_rows();
  return table;
}

const std::vector<Row<OptimizerGroup>>& group_rows() {
  static const std::vector<Row<OptimizerGroup>> table = {
      {"optimizer.group",
       "match",
       in_group(&OptimizerGroup::match),
       "glob over parameter names, such as \"*.bias\""},
      {"optimizer.group",
       "lr",
       in_group(&OptimizerGroup::lr),
       "learning rate of these parameters",
       {},
       0},
      {"optimizer.group",
       "weight_decay",
       in_group(&OptimizerGroup::weight_decay),
       "decay of these parameters",
       {},
       0},
  };
  return table;
}

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const auto& row : rows()) {
    if (names.empty() || names.back() != row.section)
      names.emplace_back(row.section);
  }
  return names;
}

std::vector<std::string> keys_of(std::string_view section) {
  std::vector<std::string> names;
  for (const auto& row : rows()) {
    if (row.section == section)
      names.emplace_back(row.key);
  }
  if (section == "optimizer")
    names.emplace_back("group");
  return names;
}

}  // namespace lockstep::schema
