// SPDX-License-Identifier: Apache-2.0
#include "lockstep/parallel/sharded/data_parallel.h"

#include <ATen/core/Tensor.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/parallel/sharded/engine.h"
#include "lockstep/parallel/sharded/equal_start.h"
#include "lockstep/parallel/sharded/pure/marks.h"

namespace lockstep {

namespace {

void check(const DataParallelOptions& options, const Group& group) {
  std::vector<Finding> findings;
  if (options.bucket_bytes < 1) {
    findings.push_back({"comm.bucket_bytes",
                        cat("a bucket holds at least 1 byte, found ", options.bucket_bytes),
                        "Give a size in bytes, such as 26214400"});
  }
  if (options.zero < 0 || options.zero > 1) {
    findings.push_back({"parallel.zero",
                        cat("0 or 1 in this version, found ", options.zero),
                        "Use 1 to shard the optimizer's state, 0 to shard nothing"});
  }
  if (!(options.nominal_count > 0)) {
    findings.push_back({"nominal_count",
                        cat("must be positive, found ", options.nominal_count),
                        "Give the usual number of samples or tokens of a micro batch, or 1"});
  }
  if (group.size() > sharded::kMostRanks) {
    findings.push_back({"data-parallel ranks",
                        cat("at most ", sharded::kMostRanks, ", found ", group.size()),
                        "Use other kinds of parallelism besides"});
  }
  throw_findings(Fault::Config, "data parallel training cannot start", findings);
}

}  // namespace

NoSync::NoSync(std::shared_ptr<sharded::Engine> engine) : engine_(std::move(engine)) {
  engine_->hold_sync();
}

NoSync::~NoSync() {
  if (engine_)
    engine_->release_sync();
}

DataParallel::DataParallel(torch::nn::Module& model,
                           const Group& group,
                           const DataParallelOptions& options) {
  check(options, group);
  engine_ = std::make_shared<sharded::Engine>(model, group, options);
}

DataParallel::DataParallel(DataParallel&&) noexcept = default;
DataParallel::~DataParallel() = default;

void DataParallel::backward(const at::Tensor& loss) { engine_->backward(loss); }
void DataParallel::backward(const at::Tensor& loss_sum, std::int64_t count) {
  engine_->backward(loss_sum, count);
}
NoSync DataParallel::no_sync() { return NoSync(engine_); }
void DataParallel::synchronize() { engine_->synchronize(sharded::Engine::Part::Active); }
StepPlan DataParallel::agree(Data data) { return engine_->agree(data); }
double DataParallel::pending_scale() const { return engine_->pending_scale(); }
void DataParallel::keep_scale() { engine_->keep_scale(); }
void DataParallel::finish() { engine_->finish(); }
void DataParallel::update(ShardUpdate& update) { engine_->update(update); }
void DataParallel::zero_grad() { engine_->zero_grad(); }
UpdateSlice DataParallel::slice_of(std::string_view parameter) const {
  const auto& known = parameters();
  for (std::size_t number = 0; number < known.size(); ++number) {
    if (known[number].first == parameter)
      return engine_->slice_of(static_cast<int>(number));
  }
  std::vector<std::string> names;
  for (const auto& [name, tensor] : known)
    names.push_back(name);
  throw Error({.fault = Fault::Storage,
               .where = {.subject = std::string(parameter)},
               .problem = cat("the model has no such parameter", did_you_mean(parameter, names)),
               .next = "Load a checkpoint of this model"});
}
void DataParallel::sync_buffers() {
  engine_->table().check_unchanged();
  sharded::sync_buffers(engine_->table(), engine_->group(), engine_->options().buffers);
}
void DataParallel::check_in_sync() const {
  engine_->table().check_unchanged();
  sharded::check_equal_values(engine_->table(), engine_->group());
}
ReductionReport DataParallel::report() const { return engine_->report(); }

const std::vector<std::pair<std::string, at::Tensor>>& DataParallel::parameters() const {
  return engine_->table().parameters();
}

const Group& DataParallel::group() const { return engine_->group(); }
int DataParallel::zero() const { return group().size() == 1 ? 0 : engine_->options().zero; }

}  // namespace lockstep
