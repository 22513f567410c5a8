// SPDX-License-Identifier: Apache-2.0
#include "lockstep/model/presets.h"

#include <array>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"

namespace lockstep {

std::span<const Preset> presets() {
  static const std::array table{
      Preset{
          .name = "tiny",
          .help = "0.5 million parameters, bytes, for tests and comparisons",
          .config = GptConfig{.layers = 4, .width = 96, .heads = 12, .vocab = 256, .context = 96}},
      Preset{
          .name = "demo",
          .help = "0.9 million parameters, bytes; learns to spell within two minutes on two cores",
          .config = GptConfig{.layers = 4, .width = 128, .heads = 4, .vocab = 256, .context = 128}},
      Preset{.name = "gpt2-small",
             .help = "124 million parameters, GPT-2's vocabulary, tied",
             .config = GptConfig{.layers = 12,
                                 .width = 768,
                                 .heads = 12,
                                 .vocab = 50257,
                                 .context = 1024,
                                 .dropout = 0.1,
                                 .tied = true}},
      Preset{.name = "mlp",
             .help = "a small classifier of 28 x 28 images into 10 classes",
             .config = MlpConfig{.layers = 3, .inputs = 784, .width = 128, .outputs = 10}},
  };
  return table;
}

const Preset& preset(std::string_view name) {
  std::vector<std::string> names;
  for (const Preset& candidate : presets()) {
    if (candidate.name == name) {
      return candidate;
    }
    names.emplace_back(candidate.name);
  }
  throw Error(
      {.fault = Fault::Config,
       .where = {.subject = "model.preset"},
       .problem = cat("there is no model named '", name, "'", did_you_mean(name, names)),
       .next = cat("Use one of ", join(names, ", "), ", or model.file with a config.json")});
}

}  // namespace lockstep
