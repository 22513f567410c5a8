// SPDX-License-Identifier: Apache-2.0
#include "lockstep/model/operators.h"

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

using Kind = OperatorSpec::Kind;

/// Appends operators of one workload; `rows` are its tokens in all.
class Tape {
 public:
  Tape(std::vector<OperatorSpec>& out, const Workload& workload) : out_(out), workload_(workload) {}

  void linear(const std::string& name, std::int64_t in, std::int64_t out) {
    add(name, Kind::Linear, out, 2.0 * rows() * size(in) * size(out));
  }
  void plain(const std::string& name, Kind kind, std::int64_t width) {
    add(name, kind, width, 0.0);
  }
  void attention(const std::string& name, std::int64_t width) {
    add(name, Kind::Attention, width, 4.0 * rows() * size(workload_.tokens) * size(width));
  }
  void loss(const std::string& name, std::int64_t width, std::int64_t vocab) {
    out_.push_back({.name = name,
                    .kind = Kind::Loss,
                    .output = {},
                    .forward_flops = 2.0 * rows() * size(width) * size(vocab)});
  }

 private:
  static double size(std::int64_t value) { return static_cast<double>(value); }
  double rows() const { return size(workload_.samples) * size(workload_.tokens); }
  void add(const std::string& name, Kind kind, std::int64_t width, double flops) {
    out_.push_back({.name = name,
                    .kind = kind,
                    .output = {workload_.samples, workload_.tokens, width},
                    .forward_flops = flops});
  }

  std::vector<OperatorSpec>& out_;
  const Workload& workload_;
};

void gpt_operators(Tape& tape, const GptConfig& config) {
  const std::int64_t width = config.width;
  tape.plain("embedding", Kind::Gather, width);
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = cat("layers.", layer, ".");
    tape.plain(name + "norm1", Kind::Norm, width);
    tape.linear(name + "attention.qkv", width, width + 2 * config.kv_heads * config.head_width());
    tape.attention(name + "attention.heads", width);
    tape.linear(name + "attention.out", width, width);
    tape.plain(name + "attention.add", Kind::Add, width);
    tape.plain(name + "norm2", Kind::Norm, width);
    tape.linear(name + "mlp.fc1", width, config.ffn_width);
    tape.plain(name + "mlp.gelu", Kind::Activation, config.ffn_width);
    tape.linear(name + "mlp.fc2", config.ffn_width, width);
    tape.plain(name + "mlp.add", Kind::Add, width);
  }
  tape.plain("head.norm", Kind::Norm, width);
  tape.loss("head", width, config.vocab);
}

void mlp_operators(Tape& tape, const MlpConfig& config) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const bool last = layer + 1 == config.layers;
    const std::int64_t out = last ? config.outputs : config.width;
    tape.linear(cat("layers.", layer), layer == 0 ? config.inputs : config.width, out);
    if (!last) {
      tape.plain(cat("layers.", layer, ".gelu"), Kind::Activation, out);
    }
  }
}

}  // namespace

std::vector<OperatorSpec> operators_of(const ModelSpec& model, const Workload& workload) {
  std::vector<OperatorSpec> operators;
  Tape tape(operators, workload);
  if (model.is_gpt()) {
    gpt_operators(tape, model.gpt());
  } else {
    mlp_operators(tape, model.mlp());
  }
  return operators;
}

double forward_flops(const std::vector<OperatorSpec>& operators) {
  double sum = 0.0;
  for (const OperatorSpec& each : operators) {
    sum += each.forward_flops;
  }
  return sum;
}

double step_flops(const std::vector<OperatorSpec>& operators) {
  return 3.0 * forward_flops(operators);
}

}  // namespace lockstep
