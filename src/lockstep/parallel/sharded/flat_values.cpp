// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/flat_values.h"

#include <ATen/ATen.h>

#include "lockstep/parallel/sharded/pure/gradient_plan.h"

namespace lockstep::sharded {

namespace {

bool owns_its_memory(const at::Tensor& tensor) {
  return tensor.has_storage() && tensor.storage().use_count() == 1 &&
         tensor.nbytes() == tensor.storage().nbytes();
}

struct Kind {
  at::TensorOptions options;
  std::vector<at::Tensor> members;
  std::int64_t elements = 0;
};

}  // namespace

FlatValues::FlatValues(const ParameterTable& table) {
  at::NoGradGuard no_grad;
  std::vector<Kind> kinds;
  std::vector<at::Tensor> staying;
  for (const auto& [name, tensor] : table.parameters()) {
    if (!owns_its_memory(tensor)) {
      staying.push_back(in_memory_order(tensor));
      continue;
    }
    auto kind = kinds.begin();
    while (kind != kinds.end() &&
           (kind->options.dtype() != tensor.dtype() || kind->options.device() != tensor.device()))
      ++kind;
    if (kind == kinds.end())
      kind = kinds.insert(kind, Kind{tensor.options().requires_grad(false), {}, 0});
    kind->members.push_back(tensor);
    kind->elements += padded(tensor.numel(), static_cast<int>(tensor.element_size()));
  }
  for (Kind& kind : kinds) {
    const at::Tensor flat = at::zeros({kind.elements}, kind.options);
    std::int64_t begin = 0;
    for (at::Tensor& tensor : kind.members) {
      const at::Tensor place = flat.as_strided(tensor.sizes(), tensor.strides(), begin);
      place.copy_(tensor);
      tensor.set_data(place);  // frees the old memory one parameter at a time
      begin += padded(tensor.numel(), static_cast<int>(tensor.element_size()));
    }
    buffers_.push_back(flat);
  }
  buffers_.insert(buffers_.end(), staying.begin(), staying.end());
}

}  // namespace lockstep::sharded
