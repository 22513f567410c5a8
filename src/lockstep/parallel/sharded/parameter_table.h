// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/base/torch_fwd.h"
#include "lockstep/parallel/sharded/pure/agreement.h"

namespace lockstep::sharded {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// The distinct parameters and buffers of a module at the time of wrapping, in order of
/// registration. A tensor registered twice counts once, under its first name.
class ParameterTable {
 public:
  /// Errors: Config for a parameter whose elements overlap in memory (an expanded tensor).
  explicit ParameterTable(torch::nn::Module& module);

  const NamedTensors& parameters() const { return parameters_; }
  const NamedTensors& buffers() const { return buffers_; }
  const std::string& name(int parameter) const;
  const at::Tensor& tensor(int parameter) const;
  int size() const { return static_cast<int>(parameters_.size()); }
  bool knows(const at::Tensor& tensor) const;

  /// Throws Usage naming the first parameter or buffer whose registration was replaced, added or
  /// removed since wrapping. Cost: a walk over the modules. A tensor assigned to a module's member
  /// alone (`layer->weight = ...`) is not seen: the registry still holds the old one.
  void check_unchanged() const;

  /// Name, type, shape and whether it is trained, of every parameter and buffer.
  std::vector<Entry> structure() const;
  /// Name and a hash of the values of every parameter and buffer. Reads them all.
  std::vector<Entry> value_hashes() const;

 private:
  torch::nn::Module& module_;  // outlives the engine, by its contract
  NamedTensors parameters_;
  NamedTensors buffers_;
  std::unordered_map<const void*, int> index_;  // by tensor object
  std::vector<const void*> walk_;               // every registration, repeated ones too
};

/// The elements of a dense tensor in the order of memory, as one dimension; shares memory.
at::Tensor in_memory_order(const at::Tensor& tensor);

}  // namespace lockstep::sharded
