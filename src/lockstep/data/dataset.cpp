// SPDX-License-Identifier: Apache-2.0
#include "lockstep/data/dataset.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/data/pure/token_file.h"

namespace lockstep {

Dataset token_dataset(std::shared_ptr<const TokenSequences> data) {
  return [data = std::move(data)](const Request& request) {
    const std::int64_t length = data->sequence();
    const std::int64_t count = std::ssize(request.ids);
    Examples examples{at::empty({count, length}, at::kLong), at::empty({count, length}, at::kLong)};
    auto* inputs = examples.inputs.mutable_data_ptr<std::int64_t>();
    auto* targets = examples.targets.mutable_data_ptr<std::int64_t>();
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(length + 1));
    for (std::int64_t row = 0; row < count; ++row) {
      data->read(request.ids[static_cast<std::size_t>(row)], tokens);
      std::copy(tokens.begin(), tokens.end() - 1, inputs + row * length);
      std::copy(tokens.begin() + 1, tokens.end(), targets + row * length);
    }
    return examples;
  };
}

std::int64_t most_rows_of_a_rank(const SamplerOptions& options, const Dealing& dealing) {
  std::int64_t most = 0;
  for (std::int64_t rank = 0; rank < dealing.num_ranks; ++rank) {
    most = std::max(most, std::ssize(ids_of_rank(options, dealing, rank)));
  }
  return most;
}

at::Tensor rows_in_data_order(const at::Tensor& gathered,
                              const SamplerOptions& options,
                              const Dealing& dealing) {
  const std::int64_t most = most_rows_of_a_rank(options, dealing);
  const bool fits =
      gathered.dim() >= 2 && gathered.size(0) == dealing.num_ranks && gathered.size(1) >= most;
  if (!fits || options.tail == Tail::Drop) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = "rows_in_data_order"},
                 .problem = fits ? "a tail that is dropped leaves samples without a row"
                                 : "the gathered rows do not fit the sampler",
                 .expected = fits ? "Tail::Once or Tail::Repeat"
                                  : cat("[", dealing.num_ranks, ", ", most, " or more, ...]"),
                 .found = fits ? "Tail::Drop" : c10::str(gathered.sizes()),
                 .next = "Pass the sampler's own options, and rows padded to most_rows_of_a_rank"});
  }
  std::vector<std::int64_t> row_of(static_cast<std::size_t>(options.num_samples));
  for (std::int64_t rank = 0; rank < dealing.num_ranks; ++rank) {
    const std::vector<std::int64_t> ids = ids_of_rank(options, dealing, rank);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      row_of[static_cast<std::size_t>(ids[i])] =
          rank * gathered.size(1) + static_cast<std::int64_t>(i);
    }
  }
  const at::Tensor index = at::tensor(row_of, at::kLong).to(gathered.device());
  return gathered.flatten(0, 1).index_select(0, index);
}

}  // namespace lockstep
