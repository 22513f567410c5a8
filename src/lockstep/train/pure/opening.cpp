// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/opening.h"

#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {

std::string mesh_text(const ParallelSizes& sizes) {
  std::string text;
  const auto add = [&](const char* axis, std::int64_t ranks) {
    if (ranks > 1)
      text += cat(text.empty() ? "" : " x ", axis, " ", ranks);
  };
  add("pp", sizes.pp);
  add("dp_replicate", sizes.dp_replicate);
  add("dp_shard", sizes.dp_shard);
  add("cp", sizes.cp);
  add("tp", sizes.tp);
  return text.empty() ? "no axis larger than 1" : text;
}

}  // namespace

std::string opening_text(const Opening& o) {
  const Config& config = o.resolved.config;
  const BatchSizes& batch = o.resolved.batch;
  const GptConfig& gpt = o.model.gpt();
  std::string text = cat("model         ",
                         o.model.name,
                         ": ",
                         o.model.parameter_elements(),
                         " parameters, ",
                         gpt.layers,
                         " layers, width ",
                         gpt.width,
                         ", ",
                         gpt.heads,
                         " heads, context ",
                         gpt.context,
                         ", vocabulary ",
                         gpt.vocab,
                         "\n");
  text += cat("ranks         ",
              o.resolved.parallel.world(),
              " (",
              mesh_text(o.resolved.parallel),
              "), zero ",
              config.parallel.zero,
              ", backend ",
              config.comm.backend == "auto" ? "gloo" : config.comm.backend,
              "\n");
  text += cat("global batch  ",
              batch.global,
              " sequences = micro ",
              batch.micro,
              " x accumulation ",
              batch.accumulation,
              " x data-parallel size ",
              o.resolved.parallel.data_parallel(),
              "; ",
              batch.global * o.sequence,
              " tokens a step\n");
  text += cat("data          ",
              o.train_tokens,
              " tokens = ",
              o.train_samples,
              " sequences of ",
              o.sequence);
  text +=
      o.valid_tokens > 0 ? cat("; validation ", o.valid_tokens, " tokens\n") : "; no validation\n";
  text += cat("optimizer     ",
              config.optimizer.name,
              ", lr ",
              o.lr,
              " (",
              config.lr_schedule.name,
              ", warm-up ",
              config.lr_schedule.warmup,
              ")");
  if (config.lr_schedule.scale_with_batch != "none") {
    text += cat(", scaled ",
                config.lr_schedule.scale_with_batch,
                " with the batch from ",
                config.optimizer.lr);
  }
  text += cat("\nsteps         ", o.first_step, " to ", o.last_step);
  if (!o.resumed_from.empty())
    text += cat(", resumed from ", o.resumed_from);
  return text + cat("\nrun           ", o.out);
}

}  // namespace lockstep::train
