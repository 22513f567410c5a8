// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/optimizer.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/optim/fused.h"

namespace lockstep::optim {

namespace {

constexpr std::array<OptimizerRow, 2> kRows = {{
    {"adamw", "Adam with decoupled weight decay", make_adamw},
    {"sgd", "stochastic gradient descent, with momentum or without", make_sgd},
}};

void refuse(
    std::vector<Finding>& findings, bool wrong, const char* key, double value, const char* range) {
  if (wrong)
    findings.push_back(
        {cat("optimizer.", key), cat("must be ", range, ", found ", value), "Correct the value"});
}

void check(const OptimizerOptions& o) {
  std::vector<Finding> findings;
  std::vector<std::string> names;
  for (const OptimizerRow& row : kRows)
    names.emplace_back(row.name);
  if (std::ranges::find(names, o.name) == names.end()) {
    findings.push_back({"optimizer.name",
                        cat("no optimizer is called '", o.name, "'", did_you_mean(o.name, names)),
                        cat("Take one of ", join(names, ", "))});
  }
  refuse(findings, !(o.lr >= 0), "lr", o.lr, "at least 0");
  refuse(findings, !(o.beta1 >= 0 && o.beta1 < 1), "betas", o.beta1, "in [0, 1)");
  refuse(findings, !(o.beta2 >= 0 && o.beta2 < 1), "betas", o.beta2, "in [0, 1)");
  refuse(findings, !(o.eps > 0), "eps", o.eps, "above 0");
  refuse(findings, !(o.weight_decay >= 0), "weight_decay", o.weight_decay, "at least 0");
  refuse(findings, !(o.momentum >= 0), "momentum", o.momentum, "at least 0");
  refuse(findings, !(o.clip >= 0), "clip", o.clip, "at least 0");
  refuse(findings,
         o.momentum_kind == OptimizerOptions::Momentum::Nesterov && o.momentum == 0,
         "momentum",
         o.momentum,
         "above 0 for Nesterov");
  throw_findings(Fault::Config, "the optimizer cannot work", findings);
}

}  // namespace

std::span<const OptimizerRow> optimizers() { return kRows; }

std::unique_ptr<Optimizer> make_optimizer(DataParallel& engine, const OptimizerOptions& options) {
  check(options);
  return std::ranges::find(kRows, options.name, &OptimizerRow::name)->make(engine, options);
}

}  // namespace lockstep::optim
