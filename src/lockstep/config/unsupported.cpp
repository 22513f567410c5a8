// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/text.h"
#include "lockstep/config/resolve.h"

namespace lockstep {

namespace {

bool is_16_bit(const std::string& type) { return type == "bf16" || type == "fp16"; }

struct Limit {
  std::string_view key;
  std::string_view words;  ///< those that are not there; empty: all but the default
  /// What was asked for, in the user's words; none where that is there.
  std::function<std::optional<std::string>(const Resolved&)> asked;
  std::string_view next;  ///< what is supported
};

using Asked = std::optional<std::string>;

Asked when(bool asked, const std::string& found) { return asked ? Asked(found) : std::nullopt; }

template <typename Value>
Asked unless_default(const Value& value, const Value& usual) {
  return when(value != usual, cat(value));
}

Asked if_16_bit(const std::string& type) { return when(is_16_bit(type), type); }

constexpr std::string_view kDataParallel = "Use data parallelism: zero = 0 or 1";
constexpr std::string_view kFullPrecision = "Use fp32 or fp64";
constexpr std::string_view kLeaveOut = "Leave it out";
constexpr std::string_view k16Bit = "bf16, fp16";

using R = const Resolved&;  // keeps a row of the table on few lines

const std::vector<Limit>& limits() {
  static const ParallelConfig parallel;
  static const CommConfig comm;
  static const OffloadConfig offload;
  // clang-format off: a flat table
  static const std::vector<Limit> table = {
      {"model.init_from", "", [](R r) { return r.config.model.init_from; },
       "Use preset or file; continue a run with --resume"},
      {"parallel.zero", "2, 3",
       [](R r) { return when(r.config.parallel.zero > 1, cat(r.config.parallel.zero)); },
       kDataParallel},
      {"parallel.pp", "",
       [](R r) { return when(r.parallel.pp > 1, cat(r.parallel.pp)); }, kDataParallel},
      {"parallel.dp_replicate", "beside zero above 0",
       [](R r) {
         return when(r.config.parallel.zero > 0 && r.parallel.dp_replicate > 1,
                     cat(r.parallel.dp_replicate));
       },
       "Shard over all ranks: leave dp_replicate out"},
      {"parallel.cp", "",
       [](R r) { return when(r.parallel.cp > 1, cat(r.parallel.cp)); }, kDataParallel},
      {"parallel.tp", "",
       [](R r) { return when(r.parallel.tp > 1, cat(r.parallel.tp)); }, kDataParallel},
      {"parallel.tp_kind", "",
       [](R r) {
         return unless_default(r.config.parallel.tp_kind, parallel.tp_kind);
       },
       kLeaveOut},
      {"parallel.tp_depth", "",
       [](R r) {
         return unless_default(r.config.parallel.tp_depth, parallel.tp_depth);
       },
       kLeaveOut},
      {"parallel.sequence_parallel", "",
       [](R r) { return when(r.config.parallel.sequence_parallel, "true"); }, kLeaveOut},
      {"parallel.pipeline", "", [](R r) { return r.config.parallel.pipeline; }, kLeaveOut},
      {"parallel.virtual_stages", "",
       [](R r) {
         return unless_default(r.config.parallel.virtual_stages, parallel.virtual_stages);
       },
       kLeaveOut},
      {"parallel.cuts", "",
       [](R r) {
         return when(!r.config.parallel.cuts.empty(),
                     cat(r.config.parallel.cuts.size(), " entries"));
       },
       kLeaveOut},
      {"parallel.recompute", "",
       [](R r) {
         return unless_default(r.config.parallel.recompute, parallel.recompute);
       },
       "Use recompute = \"none\""},
      {"precision.compute", k16Bit,
       [](R r) { return if_16_bit(r.precision.compute); }, kFullPrecision},
      {"precision.reduce", k16Bit,
       [](R r) { return if_16_bit(r.precision.reduce); }, kFullPrecision},
      {"precision.wire", k16Bit, [](R r) { return if_16_bit(r.precision.wire); }, kFullPrecision},
      {"precision.reduce", "another type than compute",
       [](R r) {
         return when(!is_16_bit(r.precision.compute) && !is_16_bit(r.precision.reduce) &&
                         r.precision.reduce != r.precision.compute,
                     r.precision.reduce);
       },
       "Leave it out: it is compute's type"},
      {"precision.wire", "another type than reduce",
       [](R r) {
         return when(!is_16_bit(r.precision.wire) && r.precision.wire != r.precision.reduce,
                     r.precision.wire);
       },
       "Leave it out: it is reduce's type"},
      {"precision.master", "fp32",
       [](R r) {
         return when(r.precision.master != "none", r.precision.master);
       },
       "Use master = \"none\""},
      {"precision.autocast", "",
       [](R r) { return when(r.config.precision.autocast, "true"); }, kFullPrecision},
      {"precision.loss_scale", "",
       [](R r) { return r.config.precision.loss_scale; }, kFullPrecision},
      {"comm.prefetch", "",
       [](R r) { return unless_default(r.config.comm.prefetch, comm.prefetch); },
       "Leave it out; no units are gathered without sharded parameters"},
      {"comm.uneven", "", [](R r) { return unless_default(r.config.comm.uneven, comm.uneven); },
       "Leave it out; the sampler gives every rank as many batches (data.drop_last tells how the "
       "tail is dealt)"},
      {"offload.parameters", "",
       [](R r) {
         return unless_default(r.config.offload.parameters, offload.parameters);
       },
       "Use \"device\""},
      {"offload.optimizer", "",
       [](R r) {
         return unless_default(r.config.offload.optimizer, offload.optimizer);
       },
       "Use \"device\""},
      {"offload.directory", "", [](R r) { return r.config.offload.directory; }, kLeaveOut},
      {"checkpoint.async", "",
       [](R r) { return when(r.config.checkpoint.async, "true"); }, "Use async = false"},
      {"train.reproducible", "", [](R r) { return when(r.config.train.reproducible, "true"); },
       "Leave it out; a run with the same number of ranks repeats itself anyway"},
  };
  // clang-format on
  return table;
}

}  // namespace

std::vector<Finding> unsupported(const Resolved& resolved) {
  std::vector<Finding> findings;
  for (const Limit& limit : limits()) {
    if (const auto found = limit.asked(resolved)) {
      findings.push_back({std::string(limit.key),
                          cat("'", *found, "' is not in this version"),
                          std::string(limit.next)});
    }
  }
  return findings;
}

std::string unsupported_text(std::string_view section, std::string_view key) {
  const std::string name = cat(section, ".", key);
  std::vector<std::string> words;
  for (const Limit& limit : limits()) {
    if (limit.key != name)
      continue;
    if (limit.words.empty())
      return std::string(kNotInThisVersion);
    words.emplace_back(limit.words);
  }
  return words.empty() ? "" : cat(kNotInThisVersion, ": ", join(words, ", "));
}

}  // namespace lockstep
