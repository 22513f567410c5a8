// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep {

/// A sum of losses and of how many: the mean over everything is taken once, over all ranks and
/// micro batches.
struct LossSum {
  at::Tensor sum;    ///< 0-d, with a gradient; fp64 for fp64 inputs, fp32 else
  at::Tensor count;  ///< 0-d int64
};

namespace tensor {

struct LossOptions {
  // Changes results.
  std::int64_t ignore_index = -100;  ///< rows with this target count for nothing: padding
  double label_smoothing = 0.0;      ///< share of the target spread evenly over the vocabulary
  // Changes speed and memory only.
  std::int64_t chunk_rows = 0;  ///< rows of logits at once; 0: 256, or 2^18 / V where that is more
};

/// Sum over the rows of cross_entropy(x weight^T, targets), without ever holding the logits of more
/// than chunk_rows rows.
///
/// Shapes   x [N, C] or [B, T, C], weight [V, C], targets [N] or [B, T] int64; N = B T.
/// Method   A chunk's logits are turned into its gradient in place while they are there; the
///          gradients of x and weight are complete after forward, and backward only scales them.
///          First derivatives only: create_graph is refused.
/// Cost     Three matrix products (one without gradients); about three buffers of chunk_rows * V at
///          once, and N C + V C elements between forward and backward for the gradients.
/// Types    fp32, fp64; for bf16 and fp16 the products are in that type, softmax, sums and the
///          gradient of weight in fp32.
/// Errors   Usage for shapes that do not fit, and on the CPU for a target outside [0, V) that is
///          not ignore_index, which it names.
/// Source   own; the idea is that of Liger-Kernel's fused linear cross entropy (Hsu et al. 2024).
LossSum chunked_cross_entropy(const at::Tensor& x,
                              const at::Tensor& weight,
                              const at::Tensor& targets,
                              const LossOptions& options = {});

}  // namespace tensor
}  // namespace lockstep
