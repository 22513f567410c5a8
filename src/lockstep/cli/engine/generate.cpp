// SPDX-License-Identifier: Apache-2.0
#include "lockstep/infer/pure/generate.h"

#include <chrono>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/base/text.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/cli/engine/commands.h"
#include "lockstep/config/load.h"
#include "lockstep/data/pure/tokenizer.h"
#include "lockstep/infer/gpt_logits.h"
#include "lockstep/nn/gpt.h"
#include "lockstep/strategy/assemble.h"
#include "lockstep/strategy/pure/plan_run.h"
#include "lockstep/train/pure/run_state.h"
#include "lockstep/train/state.h"

namespace lockstep::cli {
namespace {

struct GenerateRequest {
  std::filesystem::path folder;
  std::string prompt = "\n";
  infer::GenerateOptions options;
  bool json = false;
  std::vector<std::string> unbuilt;
};

void add_options(CLI::App& app, GenerateRequest& request) {
  app.add_option("DIR", request.folder, "a run directory, or the folder of one of its checkpoints")
      ->required();
  const std::string text = "Text";
  app.add_option("--prompt", request.prompt, "what the text starts with")->group(text);
  app.add_option("--max-new-tokens", request.options.max_new_tokens, "tokens to write")
      ->group(text)
      ->capture_default_str();
  app.add_option(
         "--temperature", request.options.sampling.temperature, "0: always the likeliest token")
      ->group(text)
      ->capture_default_str();
  app.add_option(
         "--top-p", request.options.sampling.top_p, "share of the likeliest tokens to draw from")
      ->group(text)
      ->capture_default_str();
  app.add_option("--seed", request.options.sampling.seed, "the same seed gives the same text")
      ->group(text)
      ->capture_default_str();
  app.add_flag("--json", request.json, "one JSON document on standard output")->group(text);
  for (const char* name : {"--device-map", "--memory"}) {
    app.add_option_function<std::string>(
           name, [&request, name](const std::string&) { request.unbuilt.emplace_back(name); })
        ->group("");
  }
  app.add_flag_function("--speed-table",
                        [&request](std::int64_t) { request.unbuilt.emplace_back("--speed-table"); })
      ->group("");
}

int run_generate(GenerateRequest& request) {
  if (!request.unbuilt.empty()) {
    throw Error({.fault = Fault::Config,
                 .where = {.subject = join(request.unbuilt, ", ")},
                 .problem = "not built yet",
                 .next = "Leave it out: the model is loaded into the memory of one process"});
  }
  const checkpoint::Checkpoint from(checkpoint::find_checkpoint(request.folder));
  if (checkpoint::is_set_aside(from.folder())) {
    log(LogLevel::Warning,
        cat("the newest checkpoint was set aside when a save was killed; reading ",
            from.folder().string()));
  }
  const train::RunState state = train::parse_run_state(from.state(), from.folder().string());
  const Config config =
      parse_config(state.config, cat(from.folder().string(), ", its configuration"));
  const ModelSpec spec = strategy::model_of(config);
  const auto model =
      std::dynamic_pointer_cast<nn::Gpt>(strategy::build_for_inference(config, spec));
  LOCKSTEP_ASSERT(model != nullptr);  // train refuses every other model
  train::restore_model(*model, from);
  const auto tokenizer = make_tokenizer(state.tokenizer);

  request.options.context = spec.gpt().context;
  const auto start = std::chrono::steady_clock::now();
  const auto tokens = infer::generate(
      tokenizer->encode(request.prompt), infer::cached_logits(model), request.options);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const std::string text = infer::printable_utf8(tokenizer->decode(tokens));
  if (!request.json) {
    std::cout << request.prompt << text << "\n";
    return 0;
  }
  std::cout << nlohmann::json{{"checkpoint", from.folder().string()},
                              {"step", from.step()},
                              {"prompt", infer::printable_utf8(request.prompt)},
                              {"text", text},
                              {"tokens", tokens},
                              {"tokens_per_second", static_cast<double>(tokens.size()) / seconds}}
                   .dump()
            << "\n";
  return 0;
}

}  // namespace

std::function<int()> make_generate(CLI::App& app) {
  const auto request = std::make_shared<GenerateRequest>();
  add_options(app, *request);
  return [request] { return run_generate(*request); };
}

}  // namespace lockstep::cli
