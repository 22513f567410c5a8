// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/parameter_table.h"

#include <cstring>
#include <unordered_set>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::sharded {

namespace {

const void* identity(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }

void walk(const torch::nn::Module& module, std::vector<const void*>& found) {
  for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) {
    found.push_back(identity(parameter));
  }
  for (const at::Tensor& buffer : module.buffers(/*recurse=*/false))
    found.push_back(identity(buffer));
  for (const auto& child : module.children())
    walk(*child, found);
}

std::string type_name(at::ScalarType type) {
  switch (type) {
    case at::kFloat: return "f32";
    case at::kDouble: return "f64";
    case at::kBFloat16: return "bf16";
    case at::kHalf: return "f16";
    case at::kLong: return "i64";
    default: return c10::toString(type);
  }
}

std::string describe(const at::Tensor& tensor) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : tensor.sizes())
    sizes.push_back(cat(size));
  return cat(type_name(tensor.scalar_type()),
             " [",
             join(sizes, ", "),
             "]",
             tensor.is_floating_point() && tensor.requires_grad() ? ", trained" : "");
}

std::uint64_t hash_bytes(const void* data, std::size_t size) {
  std::uint64_t hash = 0x9E3779B97F4A7C15ULL ^ size;
  const auto* bytes = static_cast<const char*>(data);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(sizeof word, size - at));
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDULL;
    hash ^= hash >> 32;
  }
  return hash;
}

Entry value_hash(const std::string& name, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().cpu().contiguous();
  return {name, cat("hash ", hash_bytes(values.const_data_ptr(), values.nbytes()))};
}

struct OfKind {
  std::string_view kind;
  std::string_view effect;  // of a tensor that nobody knows of
};

// Throws for the first tensor in which the registry differs from the one at wrapping.
void refuse_change(const NamedTensors& then,
                   const torch::OrderedDict<std::string, at::Tensor>& now,
                   const OfKind& kind) {
  const auto fail = [&](const std::string& name, std::string_view what) {
    throw Error(
        {.fault = Fault::Usage,
         .where = {.subject = name},
         .problem = cat(
             "this ", kind.kind, " was ", what, " after the model was wrapped, so ", kind.effect),
         .next = cat("Change the model first and wrap it then, or copy the values into the "
                     "old ",
                     kind.kind)});
  };
  std::unordered_set<const void*> known;
  std::unordered_set<std::string> names_then, names_now;
  for (const auto& [name, tensor] : then) {
    known.insert(identity(tensor));
    names_then.insert(name);
  }
  for (const auto& item : now) {
    names_now.insert(item.key());
    if (item.value().defined() && !known.contains(identity(item.value())))
      fail(item.key(), names_then.contains(item.key()) ? "replaced" : "added");
  }
  for (const auto& [name, tensor] : then) {
    if (!names_now.contains(name))
      fail(name, "removed");
  }
}

}  // namespace

at::Tensor in_memory_order(const at::Tensor& tensor) {
  return tensor.detach().as_strided({tensor.numel()}, {1}, tensor.storage_offset());
}

ParameterTable::ParameterTable(torch::nn::Module& module) : module_(module) {
  for (const auto& item : module.named_parameters()) {
    if (!item.value().defined())
      continue;
    if (!index_.emplace(identity(item.value()), size()).second)
      continue;
    if (!item.value().is_non_overlapping_and_dense()) {
      throw Error({.fault = Fault::Config,
                   .where = {.subject = item.key()},
                   .problem = "the elements of this parameter overlap in memory or have gaps",
                   .next = "Register a dense copy of it (tensor.contiguous().clone())"});
    }
    parameters_.emplace_back(item.key(), item.value());
  }
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined() && seen.insert(identity(item.value())).second) {
      buffers_.emplace_back(item.key(), item.value());
    }
  }
  walk(module, walk_);
}

const std::string& ParameterTable::name(int parameter) const {
  return parameters_[static_cast<std::size_t>(parameter)].first;
}

const at::Tensor& ParameterTable::tensor(int parameter) const {
  return parameters_[static_cast<std::size_t>(parameter)].second;
}

bool ParameterTable::knows(const at::Tensor& tensor) const {
  return index_.contains(identity(tensor));
}

void ParameterTable::check_unchanged() const {
  std::vector<const void*> now;
  now.reserve(walk_.size());
  walk(module_, now);
  if (now == walk_)
    return;
  refuse_change(parameters_,
                module_.named_parameters(),
                {.kind = "parameter", .effect = "its gradient would not be reduced"});
  refuse_change(buffers_,
                module_.named_buffers(),
                {.kind = "buffer", .effect = "ranks would not bring it together"});
}

std::vector<Entry> ParameterTable::structure() const {
  std::vector<Entry> entries;
  for (const auto& [name, tensor] : parameters_)
    entries.push_back({name, describe(tensor)});
  for (const auto& [name, tensor] : buffers_)
    entries.push_back({name, cat("buffer ", describe(tensor))});
  return entries;
}

std::vector<Entry> ParameterTable::value_hashes() const {
  std::vector<Entry> entries;
  for (const auto& [name, tensor] : parameters_)
    entries.push_back(value_hash(name, tensor));
  for (const auto& [name, tensor] : buffers_)
    entries.push_back(value_hash(name, tensor));
  return entries;
}

}  // namespace lockstep::sharded
