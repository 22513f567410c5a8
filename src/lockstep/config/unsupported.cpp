// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/text.h"
#include "lockstep/config/resolve.h"

namespace lockstep {

namespace {

bool is_16_bit(const std::string& type) { return type == "bf16" || type == "fp16"; }

struct Limit {
  bool asked;
  std::string key;
  std::string found;
  std::string next;  ///< what is supported
};

}  // namespace

std::vector<Finding> unsupported(const Resolved& resolved) {
  const Config& c = resolved.config;
  const ParallelSizes& p = resolved.parallel;
  const PrecisionPolicy& t = resolved.precision;
  const std::string data_parallel = "Use data parallelism: zero = 0 and dp_replicate = \"rest\"";
  const std::string full_precision = "Use fp32 or fp64";
  const std::vector<Limit> limits = {
      {c.parallel.zero > 0, "parallel.zero", cat(c.parallel.zero), data_parallel},
      {p.pp > 1, "parallel.pp", cat(p.pp), data_parallel},
      {p.cp > 1, "parallel.cp", cat(p.cp), data_parallel},
      {p.tp > 1, "parallel.tp", cat(p.tp), data_parallel},
      {c.parallel.tp_kind != "1d", "parallel.tp_kind", c.parallel.tp_kind, "Leave it out"},
      {c.parallel.tp_depth > 1, "parallel.tp_depth", cat(c.parallel.tp_depth), "Leave it out"},
      {c.parallel.sequence_parallel, "parallel.sequence_parallel", "true", "Leave it out"},
      {c.parallel.pipeline.has_value(),
       "parallel.pipeline",
       c.parallel.pipeline.value_or(""),
       "Leave it out"},
      {c.parallel.virtual_stages > 1,
       "parallel.virtual_stages",
       cat(c.parallel.virtual_stages),
       "Leave it out"},
      {!c.parallel.cuts.empty(),
       "parallel.cuts",
       cat(c.parallel.cuts.size(), " entries"),
       "Leave it out"},
      {c.parallel.recompute != "none",
       "parallel.recompute",
       c.parallel.recompute,
       "Use recompute = \"none\""},
      {is_16_bit(t.compute), "precision.compute", t.compute, full_precision},
      {is_16_bit(t.reduce), "precision.reduce", t.reduce, full_precision},
      {is_16_bit(t.wire), "precision.wire", t.wire, full_precision},
      {!is_16_bit(t.compute) && t.reduce != t.compute,
       "precision.reduce",
       t.reduce,
       cat("Use ", t.compute, ", as compute")},
      {!is_16_bit(t.wire) && t.wire != t.reduce,
       "precision.wire",
       t.wire,
       cat("Use ", t.reduce, ", as reduce")},
      {t.master != "none", "precision.master", t.master, "Use master = \"none\""},
      {c.precision.autocast, "precision.autocast", "true", full_precision},
      {c.precision.loss_scale.has_value(),
       "precision.loss_scale",
       c.precision.loss_scale.value_or(""),
       full_precision},
      {c.comm.backend == "shm",
       "comm.backend",
       c.comm.backend,
       "Use backend = \"gloo\" or \"auto\""},
      {c.comm.prefetch != CommConfig().prefetch,
       "comm.prefetch",
       cat(c.comm.prefetch),
       "Leave it out; no units are gathered without sharded parameters"},
      {c.comm.uneven != "error",
       "comm.uneven",
       c.comm.uneven,
       "Leave it out; the sampler gives every rank as many batches (data.drop_last tells how the "
       "tail "
       "is dealt)"},
      {c.offload.parameters != "device",
       "offload.parameters",
       c.offload.parameters,
       "Use \"device\""},
      {c.offload.optimizer != "device", "offload.optimizer", c.offload.optimizer, "Use \"device\""},
      {c.offload.directory.has_value(),
       "offload.directory",
       c.offload.directory.value_or(""),
       "Leave it out"},
      {c.checkpoint.async, "checkpoint.async", "true", "Use async = false"},
      {c.train.reproducible,
       "train.reproducible",
       "true",
       "Leave it out; a run with the same number of ranks repeats itself anyway"},
      {c.model.init_from.has_value(),
       "model.init_from",
       c.model.init_from.value_or(""),
       "Use preset or file; continue a run with --resume"},
  };
  std::vector<Finding> findings;
  for (const Limit& limit : limits) {
    if (limit.asked)
      findings.push_back(
          {limit.key, cat("'", limit.found, "' is not in this version"), limit.next});
  }
  return findings;
}

}  // namespace lockstep
