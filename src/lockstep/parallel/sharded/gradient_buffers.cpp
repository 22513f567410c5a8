// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/gradient_buffers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/parallel/sharded/pure/marks.h"

namespace lockstep::sharded {

namespace {

int type_number(std::vector<at::TensorOptions>& types, const at::Tensor& tensor) {
  for (std::size_t number = 0; number < types.size(); ++number) {
    if (types[number].dtype() == tensor.dtype() && types[number].device() == tensor.device()) {
      return static_cast<int>(number);
    }
  }
  types.push_back(tensor.options().requires_grad(false));
  return static_cast<int>(types.size()) - 1;
}

}  // namespace

GradientBuffers::GradientBuffers(const ParameterTable& table, const Cut& cut)
    : table_(table), cut_(cut) {
  std::vector<PlannedParameter> planned;
  std::vector<int> numbers;
  for (int parameter = 0; parameter < table.size(); ++parameter) {
    const at::Tensor& tensor = table.tensor(parameter);
    if (!tensor.requires_grad()) {
      slots_.push_back(-1);
      continue;
    }
    slots_.push_back(static_cast<int>(planned.size()));
    numbers.push_back(parameter);
    planned.push_back({.elements = tensor.numel(),
                       .type = type_number(types_, tensor),
                       .element_bytes = static_cast<int>(tensor.element_size()),
                       .exact_counts = tensor.scalar_type() == at::kFloat ||
                                       tensor.scalar_type() == at::kDouble});
  }
  plan_ = plan_gradients(
      planned,
      {.bucket_bytes = cut.bucket_bytes,
       .marks_elements = std::int64_t{kMarksPerParameter} * table.size() + kControlWords,
       .shards = cut.shards});
  for (const Bucket& bucket : plan_.buckets) {
    std::vector<int>& members = members_.emplace_back();
    for (const int slot : bucket.parameters)
      members.push_back(numbers[static_cast<std::size_t>(slot)]);
  }
  for (const FlatBuffer& flat : plan_.flats) {
    flats_.push_back(at::zeros({flat.elements}, options(flat)));
  }
  for (std::size_t slot = 0; slot < planned.size(); ++slot) {
    const Place& place = plan_.places[slot];
    const at::Tensor& tensor = table.tensor(numbers[slot]);
    const at::Tensor& flat = flats_[static_cast<std::size_t>(place.flat)];
    const at::Tensor view = cut.shards == 1
                                ? flat.as_strided(tensor.sizes(), tensor.strides(), place.begin)
                                : flat.narrow(0, place.begin, place.elements).view(tensor.sizes());
    // variable_data: autograd must not take it for a view, or libtorch's zero_grad() refuses to detach it in place.
    views_.push_back(view.variable_data());
  }
}

const Place& GradientBuffers::place(int parameter) const {
  return plan_.places[static_cast<std::size_t>(slots_[static_cast<std::size_t>(parameter)])];
}

Range GradientBuffers::own_range(int bucket) const {
  return shard_of(plan_.buckets[static_cast<std::size_t>(bucket)], cut_.shard, cut_.shards);
}

at::Tensor GradientBuffers::own(int bucket) const {
  const Range range = own_range(bucket);
  const int flat = plan_.buckets[static_cast<std::size_t>(bucket)].flat;
  return flats_[static_cast<std::size_t>(flat)].narrow(0, range.begin, range.size());
}

const at::Tensor& GradientBuffers::view(int parameter) const {
  return views_[static_cast<std::size_t>(slots_[static_cast<std::size_t>(parameter)])];
}

void GradientBuffers::adopt(int parameter) const {
  at::Tensor& gradient = table_.tensor(parameter).mutable_grad();
  if (!gradient.defined() || gradient.is_same(view(parameter)))
    return;
  if (gradient.layout() != at::kStrided) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = table_.name(parameter)},
                 .problem = "its gradient is sparse, and sparse gradients are not reduced",
                 .next = "Build the embedding with sparse(false)"});
  }
  at::NoGradGuard no_grad;
  view(parameter).copy_(gradient);
  gradient = view(parameter);
}

bool GradientBuffers::take_off(int parameter) const {
  adopt(parameter);
  at::Tensor& gradient = table_.tensor(parameter).mutable_grad();
  if (!gradient.defined()) {
    at::NoGradGuard no_grad;
    view(parameter).zero_();
    return false;
  }
  gradient = at::Tensor();
  return true;
}

void GradientBuffers::put_back(int parameter) const {
  table_.tensor(parameter).mutable_grad() = view(parameter);
}

at::Tensor GradientBuffers::bucket(int number, std::int64_t marks) const {
  const Bucket& bucket = plan_.buckets[static_cast<std::size_t>(number)];
  const bool carries =
      number + 1 == static_cast<int>(plan_.buckets.size()) && plan_.marks_flat >= 0;
  const std::int64_t begin = carries ? plan_.marks_end - marks : bucket.begin;
  return flats_[static_cast<std::size_t>(bucket.flat)].narrow(0, begin, bucket.end - begin);
}

at::Tensor GradientBuffers::marks(std::int64_t marks) const {
  if (plan_.marks_flat < 0)
    return {};
  return flats_[static_cast<std::size_t>(plan_.marks_flat)].narrow(
      0, plan_.marks_end - marks, marks);
}

void GradientBuffers::scale(double factor) const {
  if (factor == 1)
    return;
  at::NoGradGuard no_grad;
  for (int number = 0; number < static_cast<int>(plan_.buckets.size()); ++number)
    own(number).mul_(factor);
}

void GradientBuffers::clear_others() const {
  at::NoGradGuard no_grad;
  for (int number = 0; number < static_cast<int>(plan_.buckets.size()); ++number) {
    const Bucket& bucket = plan_.buckets[static_cast<std::size_t>(number)];
    const Range kept = own_range(number);
    const at::Tensor& flat = flats_[static_cast<std::size_t>(bucket.flat)];
    flat.narrow(0, bucket.begin, kept.begin - bucket.begin).zero_();
    flat.narrow(0, kept.end, bucket.end - kept.end).zero_();
  }
}

}  // namespace lockstep::sharded
