// SPDX-License-Identifier: Apache-2.0
#include "lockstep/optim/flat_state.h"

#include <ATen/ATen.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/parallel/sharded/pure/gradient_plan.h"

namespace lockstep::optim {

void FlatState::ensure(std::span<const UpdateSlice> slices) {
  struct Chunk {
    at::TensorOptions options;
    std::vector<const UpdateSlice*> slices;
    std::int64_t elements = 0;
  };
  std::vector<Chunk> chunks;
  for (const UpdateSlice& slice : slices) {
    if (parameters_.contains(slice.name))
      continue;
    auto chunk = chunks.begin();
    while (chunk != chunks.end() && (chunk->options.dtype() != slice.value.dtype() ||
                                     chunk->options.device() != slice.value.device()))
      ++chunk;
    if (chunk == chunks.end())
      chunk = chunks.insert(chunk, Chunk{slice.value.options(), {}, 0});
    chunk->slices.push_back(&slice);
    chunk->elements +=
        sharded::padded(slice.value.numel(), static_cast<int>(slice.value.element_size()));
  }
  for (const Chunk& chunk : chunks) {
    std::vector<at::Tensor> flats;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind)
      flats.push_back(at::zeros({chunk.elements}, chunk.options));
    std::int64_t begin = 0;
    for (const UpdateSlice* slice : chunk.slices) {
      OfParameter& state = parameters_[slice->name];
      state.parameter = slice->parameter;
      state.begin = slice->begin;
      state.step = at::zeros({}, chunk.options.dtype(at::kFloat));
      for (const at::Tensor& flat : flats)
        state.tensors.push_back(flat.narrow(0, begin, slice->value.numel()));
      begin += sharded::padded(slice->value.numel(), static_cast<int>(slice->value.element_size()));
    }
  }
}

FlatState::OfParameter& FlatState::of(std::string_view parameter) {
  const auto found = parameters_.find(parameter);
  LOCKSTEP_ASSERT(found != parameters_.end());
  return found->second;
}

std::vector<NamedState> FlatState::named() const {
  std::vector<NamedState> named;
  for (const auto& [name, state] : parameters_) {
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
      const at::Tensor& flat = state.tensors[kind];
      const bool whole = flat.numel() == state.parameter.numel();
      named.push_back({.name = cat(kinds_[kind], ".", name),
                       .tensor = whole ? flat.as_strided(state.parameter.sizes(),
                                                         state.parameter.strides(),
                                                         flat.storage_offset())
                                       : flat,
                       .shape = state.parameter.sizes().vec(),
                       .begin = state.begin});
    }
  }
  return named;
}

std::map<std::string, std::int64_t> FlatState::step_counts() const {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [name, state] : parameters_)
    counts[name] = state.steps;
  return counts;
}

void FlatState::set_step_counts(const std::map<std::string, std::int64_t>& counts) {
  for (const auto& [name, count] : counts) {
    const auto found = parameters_.find(name);
    if (found == parameters_.end()) {
      throw Error({.fault = Fault::Storage,
                   .where = {.subject = name},
                   .problem = "there is a step count for a parameter that has no optimizer state",
                   .next = "Load a checkpoint of this model"});
    }
    found->second.steps = count;
    found->second.step.fill_(static_cast<double>(count));
  }
}

}  // namespace lockstep::optim
