// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli/front/data.h"

#include <iostream>
#include <memory>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "lockstep/base/text.h"
#include "lockstep/data/pure/prepare.h"

namespace lockstep::cli {

namespace {

struct Options {
  PrepareOptions prepare{.out = "data"};
  bool json = false;
};

void print_json(const Prepared& prepared, const std::string& tokenizer) {
  nlohmann::ordered_json valid_file;  // null without one
  if (!prepared.valid_file.empty())
    valid_file = prepared.valid_file.string();
  const nlohmann::ordered_json document = {
      {"tokenizer", tokenizer},
      {"vocab", prepared.vocab},
      {"train_file", prepared.train_file.string()},
      {"train_tokens", prepared.train_tokens},
      {"valid_file", valid_file},
      {"valid_tokens", prepared.valid_tokens},
      {"valid_unigram_entropy_nats", prepared.valid_unigram_entropy}};
  std::cout << document.dump(2) << "\n";
}

void print_text(const Prepared& prepared, const std::string& tokenizer) {
  std::cout << cat("tokenizer  ", tokenizer, ", ", prepared.vocab, " tokens\n");
  std::cout << cat(
      "train      ", prepared.train_file.string(), ", ", prepared.train_tokens, " tokens\n");
  if (prepared.valid_file.empty())
    return;
  std::cout << cat("valid      ",
                   prepared.valid_file.string(),
                   ", ",
                   prepared.valid_tokens,
                   " tokens, unigram entropy ",
                   fixed(prepared.valid_unigram_entropy, 4),
                   " nats\n");
}

void show_progress_on_terminal(PrepareOptions& options) {
  if (::isatty(STDERR_FILENO) == 0)
    return;
  options.progress = [last = std::uint64_t{101}](std::uint64_t done, std::uint64_t all) mutable {
    const std::uint64_t percent = done * 100 / all;
    if (percent == last)
      return;
    last = percent;
    std::cerr << cat(
        "\r", percent, " % of ", human_bytes(static_cast<double>(all)), done == all ? "\n" : "");
  };
}

}  // namespace

std::function<int()> make_data(CLI::App& app) {
  const auto options =
      std::make_shared<Options>();  // shared by the parser and the function that runs
  CLI::App* prepare = app.add_subcommand("prepare", "Text to train.tokens and valid.tokens");
  prepare->add_option("FILES", options->prepare.files, "text files, taken one after the other")
      ->required();
  prepare
      ->add_option("--tokenizer",
                   options->prepare.tokenizer,
                   "byte | sentencepiece:FILE | hf:tokenizer.json")
      ->capture_default_str();
  prepare->add_option("--out", options->prepare.out, "folder of the token files")
      ->capture_default_str();
  prepare
      ->add_option("--valid-fraction",
                   options->prepare.valid_fraction,
                   "part held out for validation, from the end")
      ->capture_default_str();
  prepare->add_flag("--json", options->json, "one JSON document instead of text");
  app.require_subcommand(1);
  return [options] {
    show_progress_on_terminal(options->prepare);
    const Prepared prepared = prepare_tokens(options->prepare);
    (options->json ? print_json : print_text)(prepared, options->prepare.tokenizer);
    return 0;
  };
}

}  // namespace lockstep::cli
