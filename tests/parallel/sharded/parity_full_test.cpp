// SPDX-License-Identifier: Apache-2.0
#include "parallel/sharded/parity.h"

namespace lockstep::test {
namespace {

TEST(ParityMatrix, EqualsTheSingleProcessInEveryCell) {
  int cells = 0;
  for (const char* model : {"mlp", "gpt"}) {
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int accumulation : {1, 3}) {
        for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
          for (const std::int64_t cap :
               {std::int64_t{1}, std::int64_t{1000}, std::int64_t{25'000'000}}) {
            for (const int zero : {0, 1}) {
              expect_parity({.model = model,
                             .ranks = ranks,
                             .accumulation = accumulation,
                             .type = type,
                             .bucket_bytes = cap,
                             .zero = zero});
              ++cells;
            }
          }
        }
      }
    }
  }
  RecordProperty("cells", cells);
  std::printf("parity: %d cells\n", cells);
}

}  // namespace
}  // namespace lockstep::test
