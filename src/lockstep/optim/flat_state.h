// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/optim/optimizer.h"
#include "lockstep/parallel/sharded/shard_update.h"

namespace lockstep::optim {

/// The state tensors of each parameter, one for each of `kinds`, and its step counter, keyed by
/// parameter name. State of parameters that come together lies in one zeroed flat buffer a kind, at
/// multiples of 64 bytes.
class FlatState {
 public:
  explicit FlatState(std::vector<std::string> kinds) : kinds_(std::move(kinds)) {}

  struct OfParameter {
    std::vector<at::Tensor>
        tensors;             // by kind, one-dimensional, in the order of the parameter's memory
    at::Tensor parameter;    // for shape and strides
    std::int64_t begin = 0;  // of the tensors within it
    std::int64_t steps = 0;
    at::Tensor step;  // the same number, as the fused kernels read it
  };

  /// Makes state for the slices that have none.
  void ensure(std::span<const UpdateSlice> slices);
  OfParameter& of(std::string_view parameter);

  std::vector<NamedState> named() const;
  std::map<std::string, std::int64_t> step_counts() const;
  /// Errors: Storage naming a parameter that has no state.
  void set_step_counts(const std::map<std::string, std::int64_t>& counts);

 private:
  std::vector<std::string> kinds_;
  std::map<std::string, OfParameter, std::less<>> parameters_;
};

}  // namespace lockstep::optim
