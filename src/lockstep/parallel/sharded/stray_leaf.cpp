// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/stray_leaf.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>

#include "lockstep/base/error.h"

namespace lockstep::sharded {

void refuse_stray_leaves(const ParameterTable& table, const std::vector<int>& missing) {
  if (torch::autograd::get_current_graph_task_id() < 0)
    return;
  const auto* nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
  if (nodes == nullptr)
    return;
  for (torch::autograd::Node* node : *nodes) {
    const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node);
    if (leaf == nullptr || leaf->variable.dim() == 0 || table.knows(leaf->variable))
      continue;
    for (const int parameter : missing) {
      const at::Tensor& registered = table.tensor(parameter);
      if (registered.sizes() != leaf->variable.sizes() ||
          registered.dtype() != leaf->variable.dtype())
        continue;
      throw Error(
          {.fault = Fault::Usage,
           .where = {.subject = table.name(parameter)},
           .problem =
               "this parameter was replaced after the model was wrapped: it gets no gradient any "
               "more, while a "
               "tensor of its shape that is no parameter does, whose gradient would not be reduced",
           .next = "Copy the values into the old parameter, or replace it before wrapping"});
    }
  }
}

}  // namespace lockstep::sharded
