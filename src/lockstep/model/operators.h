// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/model/model_spec.h"

namespace lockstep {

/// How much a model is given at once: B samples of T tokens (T is 1 for an MLP).
struct Workload {
  std::int64_t samples = 1;
  std::int64_t tokens = 1;
};

/// One step of the forward computation: what comes out, and the multiplications and additions of
/// its matrix products. Gather, Norm, Activation and Add have no matrix product and count as 0
/// operations, as is usual in this field.
struct OperatorSpec {
  enum class Kind { Gather, Norm, Linear, Attention, Activation, Add, Loss };
  std::string name;  ///< prefix of its parameters, "layers.2.mlp.fc1", else "layers.2.mlp.gelu"
  Kind kind = Kind::Linear;
  std::vector<std::int64_t> output;  ///< shape
  double forward_flops = 0.0;
};

/// The operators in forward order.
///   Linear     2 * rows * in * out
///   Attention  q k^T and weights * v over all T^2 pairs, 4 * B * T^2 * H * D: causal kernels skip
///              up to half, which the usual count does not subtract (Chowdhery et al. 2022, app. B)
///   Loss       the next-token loss with its product with the head, 2 * B * T * C * V
std::vector<OperatorSpec> operators_of(const ModelSpec& model, const Workload& workload);

double forward_flops(const std::vector<OperatorSpec>& operators);
/// Forward and backward: three times the forward.
double step_flops(const std::vector<OperatorSpec>& operators);

}  // namespace lockstep
