// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/run_state.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {
using Json = nlohmann::json;

const char* word_of(Tail tail) {
  switch (tail) {
    case Tail::Drop: return "drop";
    case Tail::Repeat: return "repeat";
    case Tail::Once: break;
  }
  return "once";
}

}  // namespace

DataIdentity identity_of(const TokenSequences& data, const SamplerOptions& options) {
  std::vector<std::string> checksums;
  for (const TokenFile& file : data.files())
    checksums.push_back(hex(file.header().checksum));
  return {.num_samples = options.num_samples,
          .sequence = data.sequence(),
          .order = options.order == Order::Shuffled ? "shuffled" : "sequential",
          .tail = word_of(options.tail),
          .checksum = join(checksums, " ")};
}

void check_same_data(const DataIdentity& saved, const DataIdentity& now, std::string_view file) {
  std::vector<Finding> findings;
  const auto compare = [&](const char* what, const std::string& then, const std::string& here) {
    if (then != here) {
      findings.push_back({what,
                          cat("the checkpoint was made with ", then, ", this run has ", here),
                          "Resume with the data of that run, or start another by --out DIR"});
    }
  };
  compare("data.train (checksum of the tokens)", saved.checksum, now.checksum);
  compare("batch.sequence", cat(saved.sequence), cat(now.sequence));
  compare("samples", cat(saved.num_samples), cat(now.num_samples));
  compare("data.shuffle (order)", saved.order, now.order);
  compare("data.drop_last (tail)", saved.tail, now.tail);
  throw_findings(Fault::Config,
                 cat(file, " cannot go on: its place in the data means other samples"),
                 findings);
}

std::string to_json(const RunState& state) {
  Json json = {{"step", state.step},
               {"total_tokens", state.total_tokens},
               {"seed", state.seed},
               {"sampler",
                {{"seed", state.sampler.seed},
                 {"epoch", state.sampler.epoch},
                 {"consumed", state.sampler.consumed}}},
               {"data",
                {{"num_samples", state.data.num_samples},
                 {"sequence", state.data.sequence},
                 {"order", state.data.order},
                 {"tail", state.data.tail},
                 {"checksum", state.data.checksum}}},
               {"optimizer_steps", state.optimizer_steps},
               {"valid_loss", nullptr},
               {"best", nullptr},
               {"tokenizer", state.tokenizer},
               {"config", state.config}};
  if (state.valid_loss)
    json["valid_loss"] = *state.valid_loss;
  if (state.best)
    json["best"] = {{"step", state.best->step}, {"valid_loss", state.best->valid_loss}};
  return json.dump();
}

RunState parse_run_state(std::string_view text, std::string_view file) {
  try {
    const Json json = Json::parse(text);
    const Json& sampler = json.at("sampler");
    const Json& data = json.at("data");
    RunState state{.step = json.at("step"),
                   .total_tokens = json.at("total_tokens"),
                   .seed = json.at("seed"),
                   .sampler = {.seed = sampler.at("seed"),
                               .epoch = sampler.at("epoch"),
                               .consumed = sampler.at("consumed")},
                   .data = {.num_samples = data.at("num_samples"),
                            .sequence = data.at("sequence"),
                            .order = data.at("order"),
                            .tail = data.at("tail"),
                            .checksum = data.at("checksum")},
                   .optimizer_steps = json.at("optimizer_steps"),
                   .valid_loss = std::nullopt,
                   .best = std::nullopt,
                   .tokenizer = json.at("tokenizer"),
                   .config = json.at("config")};
    if (!json.at("valid_loss").is_null())
      state.valid_loss = json.at("valid_loss").get<double>();
    if (const Json& best = json.at("best"); !best.is_null()) {
      state.best = Best{.step = best.at("step"), .valid_loss = best.at("valid_loss")};
    }
    return state;
  } catch (const Json::exception& e) {
    throw Error({.fault = Fault::Storage,
                 .where = {.subject = std::string(file)},
                 .problem = "does not hold the state of a training run",
                 .cause = first_line(e.what()),
                 .next = "Resume from a checkpoint that lockstep train has written"});
  }
}

}  // namespace lockstep::train
