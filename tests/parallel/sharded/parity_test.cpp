// SPDX-License-Identifier: Apache-2.0
#include "parallel/sharded/parity.h"

namespace lockstep::test {
namespace {

// A sample that has every value of every axis; parity_full_test has the whole matrix.
TEST(Parity, OfRanksAccumulationAndBucketsEqualsTheSingleProcess) {
  expect_parity({.model = "gpt", .ranks = 2, .accumulation = 3});
  expect_parity({.model = "gpt", .ranks = 3, .accumulation = 1, .bucket_bytes = 1000});
  expect_parity({.model = "mlp", .ranks = 4, .accumulation = 3, .bucket_bytes = 1});
  expect_parity({.model = "mlp", .ranks = 1, .accumulation = 1});
  expect_parity({.model = "gpt", .ranks = 2, .accumulation = 1, .zero = 1});
  expect_parity({.model = "gpt", .ranks = 3, .accumulation = 3, .bucket_bytes = 1000, .zero = 1});
  expect_parity({.model = "mlp", .ranks = 4, .accumulation = 1, .bucket_bytes = 1, .zero = 1});
  expect_parity(
      {.model = "gpt", .ranks = 4, .accumulation = 1, .type = at::kFloat, .bucket_bytes = 777});
}

}  // namespace
}  // namespace lockstep::test
