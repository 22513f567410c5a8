// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/pure/recorder.h"
#include "lockstep/config/load.h"
#include "lockstep/config/portable.h"
#include "lockstep/region/trace.h"
#include "lockstep/strategy/assemble.h"
#include "lockstep/strategy/pure/plan_run.h"
#include "lockstep/train/pure/event_file.h"
#include "lockstep/train/pure/metrics.h"
#include "lockstep/train/pure/opening.h"
#include "lockstep/train/pure/run_state.h"
#include "lockstep/train/pure/same_run.h"
#include "lockstep/train/pure/trace.h"
#include "lockstep/train/state.h"
#include "lockstep/train/stepper.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTraceFirst = 3;  // the first steps warm caches up
constexpr std::int64_t kTraceSteps = 3;

/// What regions tell goes into the trace.
class RegionSpans final : public SpanSink {
 public:
  explicit RegionSpans(Trace& trace) : trace_(trace) {}
  void add(const lockstep::Span& span) override {
    const bool forward = span.phase == lockstep::Span::Phase::Forward;
    trace_.add(span.name,
               forward ? "forward" : "backward",
               forward ? "forward regions" : "backward regions",
               span.begin,
               span.end);
  }

 private:
  Trace& trace_;
};

/// Rank 0's files of a run.
struct Files {
  Files(const TrainOptions& options, std::int64_t last_step)
      : metrics_path(options.metrics.empty() ? options.places.out / "metrics.jsonl"
                                             : options.metrics) {
    const std::filesystem::path evaluations_path = options.places.out / "evaluations.jsonl";
    if (options.places.resume_from) {
      cut_metrics(metrics_path, last_step);
      cut_metrics(evaluations_path, last_step);
    }
    metrics = std::make_unique<MetricsFile>(metrics_path);
    evaluations = std::make_unique<MetricsFile>(evaluations_path);
    events = std::make_unique<EventFile>(options.places.out);
  }
  void add(const StepMetrics& m) {
    metrics->add(to_json_line(m));
    events->scalar("train/loss", m.step, m.loss);
    events->scalar("train/grad_norm", m.step, m.grad_norm);
    events->scalar("train/lr", m.step, m.lr);
    events->scalar("speed/tokens_per_second", m.step, m.tokens_per_second);
    events->scalar("speed/step_ms", m.step, m.step_ms);
    events->scalar("speed/exposed_comm_ms", m.step, m.exposed_comm_ms);
  }
  void add(const Evaluation& evaluation) {
    evaluations->add(to_json_line(evaluation));
    events->scalar("valid/loss", evaluation.step, evaluation.valid_loss);
    events->flush();
  }
  std::filesystem::path metrics_path;
  std::unique_ptr<MetricsFile> metrics;
  std::unique_ptr<MetricsFile> evaluations;
  std::unique_ptr<EventFile> events;
};

class Trainer {
 public:
  Trainer(World& world, const TrainOptions& options);
  Outcome run();

 private:
  RunValues run_values() const;
  void check_once();
  void open();
  void resume();
  void after_step(const StepOutcome& outcome);
  void evaluate_now();
  void save();
  void prune();
  void trace_around(std::int64_t step);
  void say(std::string_view text) {
    if (is_first_)
      display_.message(text);
  }

  World& world_;
  const TrainOptions& options_;
  const bool is_first_;
  const checkpoint::RunFolder folder_;
  Resolved resolved_;
  ModelSpec spec_;
  Trace trace_;
  std::shared_ptr<const TokenSequences>
      train_data_;  // these two are shared with their loaders' threads
  std::shared_ptr<const TokenSequences> valid_data_;
  strategy::Horizon horizon_;
  std::unique_ptr<DataLoader> loader_;
  strategy::Assembly assembly_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<RunLock> lock_;  // rank 0 only
  std::unique_ptr<Files> files_;   // rank 0 only
  ProgressDisplay display_;
  TimeLeft time_left_;
  RunState state_;
  std::optional<std::int64_t> saved_step_;
  std::optional<std::int64_t> resumed_step_;
  std::optional<std::int64_t> evaluated_step_;
  bool data_ended_ = false;
  Clock::time_point start_ = Clock::now();
};

Trainer::Trainer(World& world, const TrainOptions& options)
    : world_(world),
      options_(options),
      is_first_(world.rank() == GlobalRank{0}),
      folder_{options.places.out},
      resolved_(resolve(options.config, world.size())),
      spec_(strategy::model_of(resolved_.config)),
      display_(options.display, options.columns, options.print) {
  strategy::check_groups(resolved_.config, spec_);
  strategy::RunData data = strategy::open_data(resolved_.config, spec_);
  train_data_ = std::make_shared<const TokenSequences>(std::move(data.train));
  if (data.valid)
    valid_data_ = std::make_shared<const TokenSequences>(std::move(*data.valid));

  const auto sampling = strategy::train_sampling(resolved_.config, train_data_->size());
  DistributedSampler sampler(sampling, strategy::dealing_of(resolved_, world.rank().value));
  horizon_ = strategy::horizon_of(resolved_, strategy::steps_left_in(sampler), options.stop_after);
  state_.data = identity_of(*train_data_, sampling);
  check_once();
  check_same_run(run_values(), world.rank().value, [&](auto mine, auto subject) {
    return world_.all().gather_text(mine, subject);
  });
  check_same_sampling(
      sampler, [&](std::string_view mine) { return world_.all().gather_text(mine, "sampling"); });
  loader_ = std::make_unique<DataLoader>(
      token_dataset(train_data_),
      std::move(sampler),
      LoaderOptions{.workers = std::max<std::int64_t>(resolved_.config.data.workers, 1),
                    .timeout = world.timeout()});
}

/// What the ranks must have been started with alike, from the command line as well as from the file.
RunValues Trainer::run_values() const {
  RunValues values = values_of(resolved_.config);
  if (spec_.is_gpt()) {  // a model.file has values that no shape shows
    const GptConfig& gpt = spec_.gpt();
    values.emplace_back("model.heads (as built)", cat(gpt.heads));
    values.emplace_back("model.kv_heads (as built)", cat(gpt.kv_heads));
    values.emplace_back("model.dropout (as built)", cat(gpt.dropout));
    values.emplace_back("layer norm epsilon of the model", cat(gpt.norm_eps));
  }
  values.emplace_back("data.train (checksum of the tokens)", state_.data.checksum);
  if (valid_data_) {
    values.emplace_back("data.valid (checksum of the tokens)",
                        identity_of(*valid_data_, {}).checksum);
  }
  values.emplace_back("--steps", options_.stop_after ? cat(*options_.stop_after) : "nothing");
  values.emplace_back("--out", options_.places.out.string());
  values.emplace_back(
      "--resume", options_.places.resume_from ? options_.places.resume_from->string() : "nothing");
  values.emplace_back("--trace", options_.trace.empty() ? "nothing" : options_.trace.string());
  return values;
}

/// What one rank of all, or one of a machine, looks at for the others. Writes nothing.
void Trainer::check_once() {
  if (is_first_) {
    check_out(options_.places);
    check_files(options_.places, options_.metrics, options_.trace);
  }
  if (world_.local_rank() != 0)
    return;
  world_.phase("verifying the data");
  for (const auto& data : {train_data_, valid_data_}) {
    if (!data)
      continue;
    for (const TokenFile& file : data->files())
      file.verify();
  }
}

/// The loader, the state and the length of the run, as the checkpoint has them.
void Trainer::resume() {
  world_.phase("loading checkpoint");
  const fs::path folder = checkpoint::put_back(*options_.places.resume_from);
  if (checkpoint::is_set_aside(*options_.places.resume_from)) {
    say(cat("the newest checkpoint was set aside when a save was killed; going on from ",
            folder.string(),
            "\n"));
  }
  const DataIdentity data = state_.data;
  state_ = restore(assembly_, checkpoint::Checkpoint(folder));
  check_same_data(state_.data, data, folder.string());
  loader_->restore(state_.sampler);
  resumed_step_ = state_.step;
  if (fs::weakly_canonical(folder) == fs::weakly_canonical(folder_.step(state_.step)))
    saved_step_ = state_.step;
  if (resolved_.config.train.epochs) {
    horizon_ =
        strategy::horizon_of(resolved_, state_.step + loader_->steps_left(), options_.stop_after);
  }
}

/// Everything that can refuse comes before the run directory is made.
void Trainer::open() {
  const Config& config = resolved_.config;
  std::shared_ptr<Region> region;
  if (!options_.trace.empty()) {
    region = std::make_shared<TraceRegion>(std::make_shared<Region>(),
                                           std::make_shared<RegionSpans>(trace_));
  }
  assembly_ = strategy::assemble(resolved_, spec_, world_, std::move(region));
  state_.seed = config.train.seed;
  state_.sampler = loader_->state();
  if (options_.places.resume_from)
    resume();
  if (is_first_) {
    lock_ = prepare_out(options_.places);
    checkpoint::clean_left_overs(folder_);
  }
  world_.all().gather_text("", "run directory");  // no rank goes on before it is there
  if (state_.best && !fs::exists(folder_.step(state_.best->step) / "manifest.json"))
    state_.best.reset();  // it stayed in the run directory of another run
  state_.tokenizer = train_data_->header().tokenizer;
  state_.config = print_config(portable(options_.config, resolved_));
  stepper_ =
      std::make_unique<Stepper>(StepParts{.world = world_,
                                          .assembly = assembly_,
                                          .loader = *loader_,
                                          .schedule = horizon_.schedule,
                                          .seed = static_cast<std::uint64_t>(config.train.seed),
                                          .trace = trace_});
  if (!is_first_)
    return;
  write_file_atomically(options_.places.out / "config.toml", state_.config);
  files_ = std::make_unique<Files>(options_, state_.step);
  say(opening_text(
      {.resolved = resolved_,
       .model = spec_,
       .sequence = train_data_->sequence(),
       .train_tokens = train_data_->num_tokens(),
       .train_samples = train_data_->size(),
       .valid_tokens = valid_data_ ? valid_data_->num_tokens() : 0,
       .first_step = state_.step + 1,
       .last_step = horizon_.last_step,
       .lr = horizon_.schedule.base,
       .out = options_.places.out.string(),
       .resumed_from = options_.places.resume_from ? options_.places.resume_from->string() : ""}));
}

void Trainer::after_step(const StepOutcome& outcome) {
  StepMetrics metrics = outcome.metrics;
  state_.step = metrics.step;
  state_.total_tokens += metrics.step_tokens;
  state_.sampler = outcome.after;
  state_.valid_loss.reset();
  metrics.total_tokens = state_.total_tokens;
  if (!is_first_)
    return;
  files_->add(metrics);
  time_left_.add(metrics.step_ms / 1000);
  const std::int64_t every = std::max<std::int64_t>(resolved_.config.train.log_every, 1);
  const bool is_line =
      metrics.step % every == 0 || metrics.step == horizon_.last_step || metrics.step == 1;
  if (display_.kind() == ProgressDisplay::Kind::Lines && !is_line)
    return;
  display_.show(
      {.done = metrics.step,
       .total = horizon_.last_step,
       .figures = cat(
           "loss ", fixed(metrics.loss, 4), ", ", fixed(metrics.tokens_per_second, 0), " tokens/s"),
       .seconds_left = time_left_.of(horizon_.last_step - metrics.step)},
      std::chrono::duration<double>(Clock::now() - start_).count());
}

void Trainer::evaluate_now() {
  if (!valid_data_ || evaluated_step_ == state_.step)
    return;
  const double loss = evaluate(world_, assembly_, valid_data_, resolved_.batch.micro);
  evaluated_step_ = state_.step;
  state_.valid_loss = loss;
  if (!is_first_)
    return;
  files_->add(Evaluation{.step = state_.step, .valid_loss = loss});
  say(cat("step ", state_.step, ": validation loss ", fixed(loss, 4)));
}

void Trainer::prune() {
  std::set<std::int64_t> exempt;
  if (resumed_step_)
    exempt.insert(*resumed_step_);
  if (resolved_.config.checkpoint.keep_best && state_.best)
    exempt.insert(state_.best->step);
  const auto steps = checkpoint::steps_in(folder_);
  for (const std::int64_t step : checkpoint::steps_to_delete(
           steps, state_.step, static_cast<int>(resolved_.config.checkpoint.keep), exempt)) {
    try {
      checkpoint::remove_checkpoint(folder_, step);
    } catch (const Error& e) {
      log(LogLevel::Warning, e.what());  // the new one is safe; a left-over is no reason to stop
    }
  }
}

void Trainer::save() {
  if (saved_step_ == state_.step)
    return;
  if (resolved_.config.checkpoint.keep_best)
    evaluate_now();
  if (state_.valid_loss && (!state_.best || *state_.valid_loss < state_.best->valid_loss))
    state_.best = Best{.step = state_.step, .valid_loss = *state_.valid_loss};
  world_.phase("saving checkpoint");
  assembly_.engine->sync_buffers();
  checkpoint::save(folder_, snapshot_of(assembly_, state_), world_.all());
  saved_step_ = state_.step;
  if (!is_first_)
    return;
  files_->events->flush();
  prune();
  say(cat("step ", state_.step, ": saved ", folder_.step(state_.step).string()));
}

/// Starts the trace before its first step and writes it after its last.
void Trainer::trace_around(std::int64_t step) {
  if (options_.trace.empty())
    return;
  const std::int64_t first = std::min(horizon_.last_step, resumed_step_.value_or(0) + kTraceFirst);
  if (step == first)
    trace_.start();
  const std::int64_t last = std::min(horizon_.last_step, first + kTraceSteps - 1);
  if (step != last + 1 || !trace_.running())
    return;
  for (const CallRecord& record : world_.recorder().records_since(trace_.started())) {
    trace_.add(cat(call_name(record.call.operation, record.sequence), " ", record.call.subject),
               "comm",
               cat("comm ", record.group),
               record.started,
               record.ended,
               {{"type", record.call.type},
                {"elements", cat(record.call.elements())},
                {"sent_bytes", cat(record.sent_bytes)}});
  }
  trace_.stop();
  const auto texts = world_.all().gather_text(to_json(trace_.spans()), "trace");
  if (!is_first_)
    return;
  std::vector<std::vector<Span>> ranks;
  for (const std::string& text : texts)
    ranks.push_back(parse_spans(text));
  write_file_atomically(options_.trace, chrome_trace(ranks));
  say(cat("trace of steps ", first, " to ", last, ": ", options_.trace.string()));
}

Outcome Trainer::run() {
  open();
  const Config& config = resolved_.config;
  bool stopped = false;
  while (state_.step < horizon_.last_step && !stopped) {
    const std::int64_t step = state_.step + 1;
    trace_around(step);
    const bool asked = options_.signals != nullptr && options_.signals->load() > 0;
    const auto outcome = stepper_->run(step, asked ? Wish::StopAfterStep : Wish::GoOn);
    if (!outcome)
      break;
    after_step(*outcome);
    stopped = outcome->agreed == Wish::StopAfterStep;
    if (stopped)
      break;
    if (config.train.eval_every > 0 && step % config.train.eval_every == 0)
      evaluate_now();
    if (config.checkpoint.every > 0 && step % config.checkpoint.every == 0)
      save();
  }
  trace_around(state_.step + 1);
  if (stopped) {
    save();
    display_.finish();
    say(cat("stopped by a signal after step ", state_.step, "; go on with --resume"));
    return Outcome::Stopped;
  }
  evaluate_now();
  save();
  display_.finish();
  if (state_.step < horizon_.last_step)
    check_updates(state_.step, horizon_.last_step);
  return Outcome::Finished;
}

}  // namespace

Outcome run_training(World& world, const TrainOptions& options) {
  return Trainer(world, options).run();
}

}  // namespace lockstep::train
