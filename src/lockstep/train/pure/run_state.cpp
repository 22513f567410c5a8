// SPDX-License-Identifier: Apache-2.0
#include "lockstep/train/pure/run_state.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep::train {
namespace {
using Json = nlohmann::json;
}

std::string to_json(const RunState& state) {
  Json json = {{"step", state.step},
               {"total_tokens", state.total_tokens},
               {"seed", state.seed},
               {"sampler",
                {{"seed", state.sampler.seed},
                 {"epoch", state.sampler.epoch},
                 {"consumed", state.sampler.consumed}}},
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
    RunState state{.step = json.at("step"),
                   .total_tokens = json.at("total_tokens"),
                   .seed = json.at("seed"),
                   .sampler = {.seed = sampler.at("seed"),
                               .epoch = sampler.at("epoch"),
                               .consumed = sampler.at("consumed")},
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
