// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/reducer.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/as_size.h"
#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::sharded {

namespace {

// After this many backwards without a gradient a bucket no longer waits for the parameter.
constexpr int kIdleBackwards = 3;

class Stopwatch {
 public:
  explicit Stopwatch(double& seconds)
      : seconds_(seconds), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& seconds_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace

Reducer::Reducer(const ParameterTable& table,
                 const Group& group,
                 std::int64_t bucket_bytes,
                 int shards)
    : table_(table),
      group_(group),
      cut_{.bucket_bytes = bucket_bytes,
           .shards = shards,
           .shard = shards == 1 ? 0 : group.rank().value},
      expected_(as_size(table.size()), 1),
      idle_(as_size(table.size()), 0),
      used_(as_size(table.size()), 0),
      late_(as_size(table.size()), 0),
      sums_(as_size(table.size()), 0),
      used_anywhere_(as_size(table.size()), 0) {
  buffers_.emplace(table_, cut_);
}

bool Reducer::has_sums() const {
  return std::ranges::any_of(sums_, [](char sum) { return sum != 0; });
}

void Reducer::reopen(double factor) {
  if (!has_sums())
    return;
  at::NoGradGuard no_grad;
  buffers_->scale(factor);
  if (cut_.shards == 1)
    return;  // the gradients are the sums already
  buffers_->clear_others();
  for (int parameter = 0; parameter < table_.size(); ++parameter) {
    if (!has_sum(parameter) || !buffers_->holds(parameter))
      continue;
    const at::Tensor fresh = table_.tensor(parameter).grad();  // of the backward that begins
    if (fresh.defined())
      at::Tensor(buffers_->view(parameter)).add_(fresh);
    buffers_->put_back(parameter);
  }
  forget_sums();
}

void Reducer::forget_sums() { std::ranges::fill(sums_, 0); }

void Reducer::begin() {
  next_ = 0;
  pending_.clear();
  std::ranges::fill(late_, 0);
  std::ranges::fill(used_, 0);
  missing_.assign(buffers_->plan().buckets.size(), 0);
  for (std::size_t bucket = 0; bucket < missing_.size(); ++bucket) {
    for (const int parameter : buffers_->members(static_cast<int>(bucket))) {
      if (expected_[as_size(parameter)] > 0)
        ++missing_[bucket];
    }
  }
}

void Reducer::arrived(int parameter, int times) {
  if (!buffers_->holds(parameter))
    return;  // trained since this backward only: finish() takes it
  const int bucket = buffers_->bucket_of(parameter);
  if (bucket < next_) {
    late_[as_size(parameter)] = 1;
    return;
  }
  buffers_->adopt(parameter);
  if (times == expected_[as_size(parameter)]) {
    --missing_[as_size(bucket)];
    launch_ready();
  }
}

void Reducer::launch_ready() {
  while (next_ + 1 < static_cast<int>(missing_.size()) && missing_[as_size(next_)] == 0)
    launch(next_, 0);
}

std::string Reducer::label(int bucket) const {
  const std::vector<int>& members = buffers_->members(bucket);
  return cat("gradients ",
             bucket,
             " (",
             table_.name(members.front()),
             " to ",
             table_.name(members.back()),
             ")");
}

void Reducer::send(const at::Tensor& tensor, const std::string& subject) {
  if (group_.size() == 1)
    return;
  ++reductions_;
  bytes_ += static_cast<std::int64_t>(tensor.nbytes());
  pending_.push_back(group_.all_reduce(tensor, ReduceOp::Sum, subject));
}

void Reducer::reduce_bucket(int bucket, std::int64_t marks) {
  const at::Tensor whole = buffers_->bucket(bucket, marks);
  if (cut_.shards == 1) {
    send(whole, label(bucket));
    return;
  }
  ++reductions_;
  bytes_ += static_cast<std::int64_t>(whole.nbytes());
  pending_.push_back(
      group_.reduce_scatter(buffers_->own(bucket), whole, ReduceOp::Sum, label(bucket)));
}

void Reducer::launch(int bucket, std::int64_t marks) {
  for (const int parameter : buffers_->members(bucket))
    used_[as_size(parameter)] = buffers_->take_off(parameter);
  next_ = bucket + 1;
  reduce_bucket(bucket, marks);
}

void Reducer::launch_rest(const LocalMarks& marks, Carry carry) {
  const int last = static_cast<int>(missing_.size()) - 1;
  while (next_ < last)
    launch(next_, 0);
  // Which parameters have gradients is known once the last bucket's are taken off, so marks are
  // written between.
  if (last >= 0) {
    for (const int parameter : buffers_->members(last))
      used_[as_size(parameter)] = buffers_->take_off(parameter);
    next_ = last + 1;
  }
  const std::vector<float> words = [&] {
    Stopwatch watch(marks_seconds_);
    LocalMarks all = marks;
    all.call_hash = static_cast<std::uint32_t>(group_.take_digest().value);
    if (carry == Carry::AllMarks) {
      for (int parameter = 0; parameter < table_.size(); ++parameter) {
        const at::Tensor& tensor = table_.tensor(parameter);
        const bool used =
            buffers_->holds(parameter) ? used_[as_size(parameter)] != 0 : tensor.grad().defined();
        all.parameters.push_back({used && tensor.requires_grad(),
                                  late_[as_size(parameter)] != 0,
                                  tensor.requires_grad()});
      }
    }
    return encode(all);
  }();
  const auto size = static_cast<std::int64_t>(words.size());
  at::NoGradGuard no_grad;
  const at::Tensor text = at::from_blob(const_cast<float*>(words.data()), {size}, at::kFloat);
  const at::Tensor place = buffers_->marks(size);
  if (place.defined()) {
    lone_marks_ = at::Tensor();
    at::Tensor(place).copy_(text);
  } else {
    lone_marks_ = text.clone();
  }
  if (last >= 0)
    reduce_bucket(last, size);
  if (lone_marks_.defined())
    send(lone_marks_, "marks of the gradients");
}

void Reducer::wait() {
  for (Pending& pending : pending_)
    pending.wait();
  pending_.clear();
}

GlobalMarks Reducer::read_marks(std::int64_t words) {
  Stopwatch watch(marks_seconds_);
  const at::Tensor place = lone_marks_.defined() ? lone_marks_ : buffers_->marks(words);
  const at::Tensor sums = place.to(at::kCPU, at::kFloat).contiguous();
  const auto* data = sums.const_data_ptr<float>();
  return decode({data, static_cast<std::size_t>(words)}, group_.size());
}

GlobalMarks Reducer::finish(LocalMarks marks, std::span<const int> times, Carry carry) {
  launch_rest(marks, carry);
  wait();
  const std::int64_t parameters = carry == Carry::AllMarks ? table_.size() : 0;
  GlobalMarks all = read_marks(parameters * kMarksPerParameter + kControlWords);
  if (!all.calls_agree)
    group_.throw_first_difference();
  if (carry == Carry::AllMarks) {
    refuse_partly_frozen(all);
    for (std::size_t at = 0; at < used_anywhere_.size(); ++at)
      used_anywhere_[at] = all.parameters[at].used;
  }
  settle(all);
  for (std::size_t at = 0; at < times.size(); ++at) {
    idle_[at] = times[at] > 0 ? 0 : idle_[at] + 1;
    if (times[at] > 0)
      expected_[at] = times[at];
    if (idle_[at] >= kIdleBackwards)
      expected_[at] = 0;
  }
  if (carry == Carry::AllMarks)
    follow_frozen();
  return all;
}

void Reducer::settle(const GlobalMarks& marks) {
  for (int parameter = 0; parameter < table_.size(); ++parameter) {
    const at::Tensor late =
        table_.tensor(parameter).grad();  // taken off, so what is here came afterwards
    const bool held = buffers_->holds(parameter);
    if (held && used_anywhere_[as_size(parameter)] > 0)
      keep_sum(parameter);
    if (marks.parameters.empty())
      continue;
    const GlobalMarks::OfParameter& mark = marks.parameters[as_size(parameter)];
    if (mark.late > 0 || (!held && mark.used > 0))
      add_late(parameter, late);
  }
}

void Reducer::add_late(int parameter, const at::Tensor& gradient) {
  at::NoGradGuard no_grad;
  const at::Tensor& tensor = table_.tensor(parameter);
  const at::Tensor sum =
      at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().requires_grad(false));
  if (gradient.defined()) {
    at::Tensor(sum).copy_(gradient);
  } else {
    at::Tensor(sum).zero_();
  }
  send(in_memory_order(sum), cat("late gradient ", table_.name(parameter)));
  wait();
  if (!buffers_->holds(parameter)) {
    tensor.mutable_grad() = sum;
    return;
  }
  // Without any other gradient the place holds zeros.
  at::Tensor(buffers_->view(parameter)).add_(sum);
  keep_sum(parameter);
}

void Reducer::keep_sum(int parameter) {
  sums_[as_size(parameter)] = 1;
  if (cut_.shards == 1) {
    buffers_->put_back(parameter);
  } else {
    // Only a part of it is there: nobody may take it for the gradient.
    table_.tensor(parameter).mutable_grad() = at::Tensor();
  }
}

void Reducer::follow_frozen() {
  for (int parameter = 0; parameter < table_.size(); ++parameter) {
    if (buffers_->holds(parameter) == table_.tensor(parameter).requires_grad())
      continue;
    if (cut_.shards > 1) {
      if (buffers_->holds(parameter))
        continue;  // frozen since: its place stays and holds zeros
      throw Error(
          {.fault = Fault::Usage,
           .where = {.subject = table_.name(parameter)},
           .problem = "it was frozen when the model was wrapped, so no rank holds a part of it",
           .next = "Let it be trained from the start, or use zero = 0"});
    }
    // All ranks agree on what is trained, so all lay their gradients out anew at the same step.
    buffers_.emplace(table_, cut_);
    for (int other = 0; other < table_.size(); ++other) {
      if (buffers_->holds(other))
        buffers_->adopt(other);
    }
    return;
  }
}

void Reducer::refuse_partly_frozen(const GlobalMarks& marks) const {
  for (int parameter = 0; parameter < table_.size(); ++parameter) {
    const int trained = marks.parameters[as_size(parameter)].trainable;
    if (trained == 0 || trained == group_.size())
      continue;
    const auto told = group_.gather_text(
        table_.tensor(parameter).requires_grad() ? "trained" : "frozen", "frozen parameters");
    std::vector<std::string> frozen_on, trained_on;
    for (std::size_t rank = 0; rank < told.size(); ++rank) {
      (told[rank] == "frozen" ? frozen_on : trained_on).push_back(cat(rank));
    }
    throw Error({.fault = Fault::Mismatch,
                 .where = {.rank = group_.rank().value,
                           .group = group_.label(),
                           .subject = table_.name(parameter)},
                 .problem = "this parameter is frozen on some ranks only",
                 .expected = cat("the same requires_grad everywhere"),
                 .found = cat("frozen on ranks ",
                              cut_list(frozen_on, 8),
                              ", trained on ranks ",
                              cut_list(trained_on, 8)),
                 .next = "Freeze or unfreeze it on every rank before the same step"});
  }
}

void Reducer::abandon() {
  // What travels still writes into the buffers. It ends everywhere or tells here why it cannot:
  // the error of backward itself is on its way already.
  try {
    wait();
  } catch (const std::exception&) {
    pending_.clear();
  }
}

}  // namespace lockstep::sharded
