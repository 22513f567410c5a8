// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include <ATen/core/Tensor.h>

#include "lockstep/data/pure/split.h"

namespace lockstep {

class TokenSequences;

// Shapes: B samples of a batch, T tokens of a sequence.

/// What a data set makes of some samples. For tokens: inputs and targets [B, T], int64.
struct Examples {
  at::Tensor inputs;
  at::Tensor targets;
};

/// What is asked of a data set: samples by id, in this order; possibly none. Anything random must
/// come from `seed`, which differs with rank, worker, epoch and batch and is the same in every run
/// and after every resume.
struct Request {
  std::span<const std::int64_t> ids;
  std::int64_t epoch = 0;
  Reader reader;
  std::uint64_t seed = 0;
};

/// A data set that finds any sample. Called from several threads at once.
using Dataset = std::function<Examples(const Request&)>;

/// A data set that can only be read from its front; none at the end.
using Stream = std::function<std::optional<Examples>()>;

/// Next-token prediction: sample i has inputs = tokens [i T, (i + 1) T) and targets = the same one
/// token later.
Dataset token_dataset(std::shared_ptr<const TokenSequences> data);

/// Results of all ranks put in the order of the data: row i belongs to sample i, and there are
/// exactly as many rows as samples, however the last batch fell. Each rank's ids and their number
/// are computed, never guessed from the shapes.
///
/// Shapes  gathered [n, k, ...]: rank by rank the rows of a whole epoch in that rank's order; k is
///         at least the largest number of rows of a rank, what is beyond a rank's own number is
///         ignored. Result [num_samples, ...].
/// Errors  Usage: k is too small, or the tail drops samples.
at::Tensor rows_in_data_order(const at::Tensor& gathered,
                              const SamplerOptions& options,
                              const Dealing& dealing);

/// The largest number of rows that a rank has in a whole epoch: the k above, for padding before the
/// gather.
std::int64_t most_rows_of_a_rank(const SamplerOptions& options, const Dealing& dealing);

}  // namespace lockstep
