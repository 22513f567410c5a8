// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/equal_start.h"

#include <functional>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/base/philox.h"
#include "lockstep/base/text.h"
#include "lockstep/parallel/sharded/pure/agreement.h"

namespace lockstep::sharded {

namespace {

/// The first difference between the ranks' entries. Lists travel only where their hashes differ.
std::optional<Difference> compare(const std::vector<Entry>& mine,
                                  const Group& group,
                                  std::string_view what) {
  if (group.size() == 1)
    return std::nullopt;
  const std::string text = to_text(mine);
  if (!first_difference(group.gather_text(cat(hash_name(text)), cat("hash of ", what))))
    return std::nullopt;
  return first_difference(group.gather_text(text, what));
}

std::string on_rank(const std::string& value, int rank) { return cat(value, " (rank ", rank, ")"); }

/// Runs a collective on a contiguous image of the tensor and copies the result back where that was
/// a copy.
void through_contiguous(const at::Tensor& tensor,
                        const std::function<void(const at::Tensor&)>& collective) {
  at::NoGradGuard no_grad;
  const at::Tensor image = tensor.detach().contiguous();
  collective(image);
  if (!image.is_alias_of(tensor))
    tensor.detach().copy_(image);
}

void broadcast(const at::Tensor& tensor, const Group& group, const std::string& subject) {
  if (tensor.numel() == 0)
    return;
  through_contiguous(tensor, [&](const at::Tensor& image) {
    group.broadcast(image, GroupRank{0}, subject).wait();
  });
}

}  // namespace

void check_same_structure(const ParameterTable& table, const Group& group) {
  const auto difference = compare(table.structure(), group, "names, shapes and types of the model");
  if (!difference)
    return;
  const bool counts = difference->count != difference->other_count;
  const auto describe = [&](const std::string& value, std::size_t count, int rank) {
    return on_rank(counts ? cat(count, " parameters and buffers, this one ", value) : value, rank);
  };
  throw Error(
      {.fault = Fault::Mismatch,
       .where = {.group = group.label(),
                 .operation = "wrapping the model",
                 .subject = difference->name},
       .problem = "ranks built different models",
       .expected = describe(difference->other_value, difference->other_count, difference->other),
       .found = describe(difference->value, difference->count, difference->rank),
       .next = cat(
           "Check that rank ", difference->rank, " builds the model from the same configuration")});
}

void check_equal_values(const ParameterTable& table, const Group& group) {
  const auto difference = compare(table.value_hashes(), group, "values of the model");
  if (!difference)
    return;
  throw Error({.fault = Fault::Mismatch,
               .where = {.group = group.label(), .subject = difference->name},
               .problem = cat(
                   "rank ", difference->rank, " holds other values than rank ", difference->other),
               .expected = on_rank(difference->other_value, difference->other),
               .found = on_rank(difference->value, difference->rank),
               .next = "Check that every rank synchronises its gradients and calls "
                       "optimizer.step() in every step"});
}

void make_equal(const ParameterTable& table, const FlatValues& values, const Group& group) {
  if (group.size() == 1)
    return;
  for (const at::Tensor& flat : values.buffers())
    broadcast(flat, group, "parameters at the start");
  for (const auto& [name, buffer] : table.buffers())
    broadcast(buffer, group, cat("buffer ", name));
  check_equal_values(table, group);
}

void sync_buffers(const ParameterTable& table, const Group& group, BufferPolicy policy) {
  if (group.size() == 1 || policy == BufferPolicy::None)
    return;
  for (const auto& [name, buffer] : table.buffers()) {
    if (policy == BufferPolicy::Rank0 || !buffer.is_floating_point()) {
      broadcast(buffer, group, cat("buffer ", name));
      continue;
    }
    through_contiguous(buffer, [&, &subject = name](const at::Tensor& image) {
      group.all_reduce(image, ReduceOp::Sum, cat("buffer ", subject)).wait();
      at::Tensor(image).div_(group.size());
    });
  }
}

}  // namespace lockstep::sharded
