// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/engine.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include "lockstep/base/as_size.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/parallel/sharded/equal_start.h"
#include "lockstep/parallel/sharded/stray_leaf.h"

namespace lockstep::sharded {

namespace {

ParameterTable agreed_table(torch::nn::Module& module, const Group& group) {
  ParameterTable table(module);
  check_same_structure(table, group);
  return table;
}

// The parameters' memory: cut like their gradients where ranks share the update.
FlatValues values_of(const ParameterTable& table, const Reducer& reducer, int shards) {
  return shards == 1 ? FlatValues(table) : FlatValues(table, reducer.buffers());
}

}  // namespace

Engine::Engine(torch::nn::Module& module, const Group& group, const DataParallelOptions& options)
    : options_(options),
      group_(group),
      table_(agreed_table(module, group)),
      shards_(options.zero == 0 ? 1 : group.size()),
      reducer_(table_, group_, options.bucket_bytes, shards_),
      values_(values_of(table_, reducer_, shards_)),
      usage_(as_size(table_.size())),
      watch_(*this),
      times_(as_size(table_.size()), 0),
      uses_(times_) {
  make_equal(table_, values_, group_);
  for (int parameter = 0; parameter < table_.size(); ++parameter) {
    watch_.watch(parameter, table_.tensor(parameter));
  }
}

void Engine::begin(int first_parameter) {
  refuse_mixed_counts(first_parameter);
  if (!counts_)
    reopen_step();
  in_backward_ = true;
  std::ranges::fill(times_, 0);
  (counts_ ? local_counted_ : local_plain_) = true;
  synchronised_ = unsynced_guards_ == 0;
  if (!synchronised_)
    return;
  table_.check_unchanged();
  reducer_.begin();
}

void Engine::backward_began(int first_parameter) { begin(first_parameter); }

void Engine::gradient_arrived(int parameter) {
  ++times_[as_size(parameter)];
  ++uses_[as_size(parameter)];
  if (synchronised_) {
    reducer_.arrived(parameter, times_[as_size(parameter)]);
  } else if (reducer_.buffers().holds(parameter)) {
    reducer_.buffers().adopt(parameter);
  }
}

void Engine::backward_ended() {
  in_backward_ = false;
  ++backwards_;
  check_static();
  if (!synchronised_)
    return;
  check_no_parameter_slipped_away();
  end_synchronised(Part::Active, times_);
}

void Engine::backward_abandoned() {
  in_backward_ = false;
  if (synchronised_)
    reducer_.abandon();
  // Part of a backward is in the gradients: nothing that this step added up is of use.
  zero_grad();
  std::ranges::fill(uses_, 0);
}

GlobalMarks Engine::reduce(Part part, std::span<const int> times) {
  const bool marks_known = options_.graph == GraphKind::Static && usage_.steps() > 0;
  try {
    return reducer_.finish(
        {.active = part == Part::Active, .counted = local_counted_, .count = local_count_},
        times,
        marks_known ? Reducer::Carry::ControlOnly : Reducer::Carry::AllMarks);
  } catch (const Error& error) {
    if (error.fault() != Fault::Peer)
      throw;
    Facts facts = error.facts();
    facts.problem +=
        cat("; all ranks finished ", usage_.steps(), " steps, this is step ", usage_.steps() + 1);
    throw Error(std::move(facts));
  }
}

void Engine::end_synchronised(Part part, std::span<const int> times) {
  const GlobalMarks marks = reduce(part, times);
  divide(marks);
  local_plain_ = local_counted_ = false;
  local_count_ = 0;
  if (part == Part::Shadow)
    std::ranges::fill(uses_, 1);  // it had no data to use them on
  usage_.end_step(uses_);
  std::ranges::fill(uses_, 0);
  step_reductions_ = reducer_.reductions() - std::exchange(reductions_, reducer_.reductions());
  step_bytes_ = reducer_.bytes() - std::exchange(bytes_, reducer_.bytes());
}

void Engine::divide(const GlobalMarks& marks) {
  if (marks.counted == 0) {
    const int ranks = options_.uneven == Uneven::JoinActive ? marks.active : group_.size();
    reducer_.buffers().scale(1.0 / ranks);
    reduced_plain_ = true;
    plain_divisor_ = ranks;
    return;
  }
  const Where where{
      .rank = group_.rank().value, .group = group_.label(), .subject = "backward(loss, count)"};
  if (marks.counted != marks.active) {
    throw Error({.fault = Fault::Mismatch,
                 .where = where,
                 .problem = "some ranks gave backward a count and others did not",
                 .found = cat(marks.counted,
                              " of ",
                              marks.active,
                              " ranks with a count; this one ",
                              local_counted_ ? "with" : "without"),
                 .next = "Give every backward of a step a count, on every rank, or none"});
  }
  reduced_count_ += marks.count;
  if (reduced_count_ == 0) {
    throw Error({.fault = Fault::Numeric,
                 .where = where,
                 .problem = "the counts of all ranks add up to 0, so the mean is not defined",
                 .next = "Leave out steps in which no rank has a sample that counts"});
  }
  const double factor = options_.nominal_count / static_cast<double>(reduced_count_);
  applied_scale_ = keeps_scale_ ? 1 : factor;
  pending_scale_ = keeps_scale_ ? factor : 1;
  reducer_.buffers().scale(applied_scale_);
}

void Engine::run(const at::Tensor& loss, double weight) {
  const std::int64_t before = backwards_;
  if (loss.requires_grad())
    loss.backward(at::full_like(loss, weight));
  if (backwards_ != before)
    return;
  begin(-1);  // the loss reaches no parameter, so nothing told us of it
  backward_ended();
}

void Engine::backward(const at::Tensor& loss) { run(loss, 1); }

void Engine::backward(const at::Tensor& loss_sum, std::int64_t count) {
  if (count < 0) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = "backward(loss, count)"},
                 .problem = "a count is at least 0",
                 .found = cat(count),
                 .next = "Pass the number of samples or tokens that the loss sums over"});
  }
  if (!local_counted_)
    reopen_step();
  counts_ = true;
  local_count_ += count;
  try {
    run(loss_sum, 1 / options_.nominal_count);
  } catch (...) {
    counts_ = false;
    throw;
  }
  counts_ = false;
}

// Gradients that were reduced earlier in this step become this rank's share of them, so that the
// next sum holds them once.
void Engine::reopen_step() {
  if (reduced_count_ == 0) {
    if (sharded() && reduced_plain_)
      reducer_.reopen(plain_divisor_);
    return;
  }
  if (gradients_are_clear(-1)) {
    forget_step();
    return;
  }
  // Every rank holds the sum, or one of them each part of it.
  reducer_.reopen(1 / (applied_scale_ * (sharded() ? 1 : group_.size())));
  applied_scale_ = pending_scale_ = 1;
}

void Engine::refuse_mixed_counts(int first_parameter) {
  const bool other_local = counts_ ? local_plain_ : local_counted_;
  const bool other_reduced = counts_ ? reduced_plain_ : reduced_count_ > 0;
  if (!other_local && !other_reduced)
    return;
  if (!other_local && gradients_are_clear(first_parameter)) {
    counts_ ? void(reduced_plain_ = false) : forget_step();
    return;
  }
  throw Error({.fault = Fault::Usage,
               .where = {.subject = "backward"},
               .problem = "backwards with and without a count were added up in one step",
               .next = "Use one kind within a step, and call zero_grad() between steps"});
}

bool Engine::gradients_are_clear(int except) const {
  if (sharded())
    return !reducer_.has_sums();
  const GradientBuffers& buffers = reducer_.buffers();
  for (int parameter = 0; parameter < table_.size(); ++parameter) {
    const at::Tensor& gradient = table_.tensor(parameter).grad();
    if (parameter == except || !gradient.defined() || !buffers.holds(parameter))
      continue;
    if (gradient.is_same(buffers.view(parameter)) &&
        gradient.count_nonzero().item<std::int64_t>() > 0)
      return false;
  }
  return true;
}

void Engine::synchronize(Part part) {
  // What a rank without data holds is the same on every rank; those that are active send it for the
  // mean over them.
  if (part == Part::Shadow && options_.uneven == Uneven::JoinActive && reduced_plain_)
    zero_grad();
  if (!local_counted_)
    reopen_step();
  table_.check_unchanged();
  reducer_.begin();
  end_synchronised(part, {});
}

StepPlan Engine::agree(Data data) {
  table_.check_unchanged();
  std::vector<std::int64_t> flags(as_size(group_.size()), 0);
  flags[as_size(group_.rank().value)] = data == Data::Here ? 1 : 0;
  if (group_.size() > 1) {
    const at::Tensor all = at::from_blob(flags.data(), {group_.size()}, at::kLong);
    group_.all_reduce(all, ReduceOp::Sum, "ranks that have data").wait();
  }
  std::vector<std::string> out;
  for (std::size_t rank = 0; rank < flags.size(); ++rank) {
    if (flags[rank] == 0)
      out.push_back(cat(rank));
  }
  if (out.size() == flags.size())
    return StepPlan::Stop;
  if (out.empty())
    return StepPlan::Work;
  switch (options_.uneven) {
    case Uneven::Stop: return StepPlan::Stop;
    case Uneven::Error: break;
    case Uneven::Join:
    case Uneven::JoinActive:
      if (data == Data::Here)
        return StepPlan::Work;
      synchronize(Part::Shadow);
      return StepPlan::Shadow;
  }
  throw Error({.fault = Fault::Mismatch,
               .where = {.rank = group_.rank().value,
                         .group = group_.label(),
                         .operation = cat("step ", usage_.steps() + 1)},
               .problem = cat("rank ",
                              cut_list(out, 8),
                              " finished after ",
                              usage_.steps(),
                              " steps: no data is left there"),
               .found = cat(flags.size() - out.size(), " of ", flags.size(), " ranks with data"),
               .next = "Give every rank as many batches, as lockstep train does, or pass "
                       "DataParallelOptions::uneven = Join, JoinActive or Stop"});
}

void Engine::finish() {
  check_ready_to_update();
  reducer_.buffers().scale(pending_scale_);
  applied_scale_ *= pending_scale_;
  pending_scale_ = 1;
}

void Engine::check_ready_to_update() const {
  table_.check_unchanged();
  if (local_plain_ || local_counted_) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = "update"},
                 .problem =
                     "the step's last backward ran without synchronisation, so the gradients "
                     "are this rank's own",
                 .next = "End no_sync before the last backward of a step, or call synchronize()"});
  }
  if (usage_.steps() > updated_steps_ || has_gradients() || reducer_.has_sums())
    return;
  throw Error({.fault = Fault::Usage,
               .where = {.subject = "update"},
               .problem = "no backward reached a parameter of the model since the last update",
               .next = "Check that the loss uses the wrapped model, and that no tensor was put in "
                       "the place of its parameters after wrapping"});
}

bool Engine::has_gradients() const {
  return std::ranges::any_of(table_.parameters(),
                             [](const auto& item) { return item.second.grad().defined(); });
}

void Engine::update(ShardUpdate& update) {
  check_ready_to_update();
  std::vector<UpdateSlice> slices;
  for (int parameter = 0; parameter < table_.size(); ++parameter) {
    const at::Tensor& tensor = table_.tensor(parameter);
    const bool there = sharded() ? reducer_.has_sum(parameter) : tensor.grad().defined();
    if (!tensor.requires_grad() || !there || !reducer_.buffers().holds(parameter))
      continue;
    if (!sharded())
      reducer_.buffers().adopt(parameter);
    slices.push_back(slice_of(parameter));
  }
  update.update(slices,
                {.scale = pending_scale_, .add_over_shards = [this](std::span<double> numbers) {
                   if (!sharded() || numbers.empty())
                     return;
                   const at::Tensor all = at::from_blob(
                       numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::kDouble);
                   group_.all_reduce(all, ReduceOp::Sum, "norms of the gradients").wait();
                 }});
  if (sharded())
    gather_values();
  updated_steps_ = usage_.steps();
  forget_step();
}

UpdateSlice Engine::slice_of(int parameter) const {
  const at::Tensor& tensor = table_.tensor(parameter);
  const GradientBuffers& buffers = reducer_.buffers();
  const at::Tensor value = in_memory_order(tensor);
  const at::Tensor gradient =
      buffers.holds(parameter) ? in_memory_order(buffers.view(parameter)) : at::Tensor();
  UpdateSlice slice{
      .name = table_.name(parameter), .value = value, .gradient = gradient, .parameter = tensor};
  if (!sharded() || !buffers.holds(parameter))
    return slice;
  const Place& place = buffers.place(parameter);
  const Range own = buffers.own_range(place.bucket);
  slice.begin = std::clamp<std::int64_t>(own.begin - place.begin, 0, place.elements);
  const std::int64_t end = std::clamp<std::int64_t>(own.end - place.begin, 0, place.elements);
  slice.value = value.narrow(0, slice.begin, end - slice.begin);
  slice.gradient = gradient.narrow(0, slice.begin, end - slice.begin);
  return slice;
}

// Every rank's parts of the parameters to all ranks.
void Engine::gather_values() {
  at::NoGradGuard no_grad;
  std::vector<Pending> pending;
  const GradientBuffers& buffers = reducer_.buffers();
  for (int number = 0; number < static_cast<int>(buffers.plan().buckets.size()); ++number) {
    const Bucket& bucket = buffers.plan().buckets[as_size(number)];
    const Range own = buffers.own_range(number);
    const at::Tensor& flat = values_.flat(bucket.flat);
    pending.push_back(group_.all_gather(flat.narrow(0, bucket.begin, bucket.end - bucket.begin),
                                        flat.narrow(0, own.begin, own.size()),
                                        cat("parameters ", number)));
  }
  for (Pending& gather : pending)
    gather.wait();
}

void Engine::forget_step() {
  reduced_plain_ = false;
  reduced_count_ = 0;
  applied_scale_ = pending_scale_ = 1;
}

void Engine::zero_grad() {
  for (const auto& [name, tensor] : table_.parameters())
    tensor.mutable_grad() = at::Tensor();
  reducer_.forget_sums();
  forget_step();
  local_plain_ = local_counted_ = false;
  local_count_ = 0;
}

void Engine::check_static() {
  if (options_.graph != GraphKind::Static)
    return;
  if (!static_times_) {
    static_times_ = times_;
    return;
  }
  for (int parameter = 0; parameter < table_.size(); ++parameter) {
    const int now = times_[as_size(parameter)];
    const int first = (*static_times_)[as_size(parameter)];
    if (now == first)
      continue;
    throw Error(
        {.fault = Fault::Config,
         .where = {.rank = group_.rank().value,
                   .operation = cat("step ", usage_.steps() + 1),
                   .subject = table_.name(parameter)},
         .problem = "static_graph was promised, but this parameter got its gradient another number "
                    "of times",
         .expected = cat(first, " a backward, as in step 1"),
         .found = cat(now),
         .next = "Leave static_graph off, or run the same part of the model in every step"});
  }
}

void Engine::check_no_parameter_slipped_away() const {
  std::vector<int> missing;
  for (int parameter = 0; parameter < table_.size(); ++parameter) {
    const bool newly =
        uses_[as_size(parameter)] == 0 && usage_.unused_since(as_size(parameter)) == 0;
    if (newly && table_.tensor(parameter).requires_grad())
      missing.push_back(parameter);
  }
  if (!missing.empty())
    refuse_stray_leaves(table_, missing);
}

ReductionReport Engine::report() const {
  table_.check_unchanged();
  std::string mine;
  for (int parameter = 0; parameter < table_.size(); ++parameter) {
    const std::int64_t since = usage_.unused_since(as_size(parameter));
    if (since > 0 && table_.tensor(parameter).requires_grad())
      mine += cat(parameter, " ", since, "\n");
  }
  const std::vector<std::string> all = group_.size() > 1
                                           ? group_.gather_text(mine, "unused parameters")
                                           : std::vector<std::string>{mine};
  ReductionReport report{
      .steps = usage_.steps(),
      .reductions = reducer_.reductions(),
      .reductions_per_step = step_reductions_,
      .reduced_bytes_per_step = step_bytes_,
      .marks_ms_per_step = 1e3 * reducer_.marks_seconds() /
                           static_cast<double>(std::max<std::int64_t>(1, usage_.steps()))};
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
    for (const std::string& line : split(all[as_size(rank)], '\n')) {
      const std::vector<std::string> words = split(line, ' ');
      if (words.size() != 2)
        continue;
      report.unused.push_back(
          {table_.name(static_cast<int>(*parse_int(words[0]))), rank, *parse_int(words[1])});
    }
  }
  std::ranges::stable_sort(report.unused, {}, [&](const auto& unused) { return unused.parameter; });
  return report;
}

}  // namespace lockstep::sharded
