// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/flat_values.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
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

FlatValues::FlatValues(const ParameterTable& table) { gather(table, nullptr); }

FlatValues::FlatValues(const ParameterTable& table, const GradientBuffers& layout) {
  at::NoGradGuard no_grad;
  for (const FlatBuffer& flat : layout.plan().flats)
    buffers_.push_back(at::zeros({flat.elements}, layout.options(flat)));
  for (int parameter = 0; parameter < table.size(); ++parameter) {
    if (!layout.holds(parameter))
      continue;
    const at::Tensor& tensor = table.tensor(parameter);
    if (!owns_its_memory(tensor)) {
      throw Error({.fault = Fault::Config,
                   .where = {.subject = table.name(parameter)},
                   .problem = "it shares its memory with another tensor, so it cannot be sharded",
                   .next = "Register a tensor of its own, freeze it, or use zero = 0"});
    }
    const Place& place = layout.place(parameter);
    const at::Tensor memory =
        flat(place.flat).narrow(0, place.begin, place.elements).view(tensor.sizes());
    memory.copy_(tensor);
    at::Tensor(tensor).set_data(memory);  // frees the old memory one parameter at a time
  }
  gather(table, &layout);
}

// What no layout holds.
void FlatValues::gather(const ParameterTable& table, const GradientBuffers* layout) {
  at::NoGradGuard no_grad;
  std::vector<Kind> kinds;
  std::vector<at::Tensor> staying;
  for (int parameter = 0; parameter < table.size(); ++parameter) {
    const at::Tensor& tensor = table.tensor(parameter);
    if (layout != nullptr && layout->holds(parameter))
      continue;
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
