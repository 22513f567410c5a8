// SPDX-License-Identifier: Apache-2.0
#include "lockstep/config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/config/schema.h"

#include "support/process.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string complaint(std::string_view text, std::vector<std::string> sets = {}) {
  try {
    parse_config(text, "run.toml", sets);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Config);
    return error.what();
  }
  return "none";
}

TEST(Config, ReadsEverySectionOfAFile) {
  const Config config = parse_config(R"(
[model]
preset = "tiny"
layers = 3
tied = false
[data]
train = "a.tokens"
valid = ["b.tokens", "c.tokens"]
[batch]
global = 24
[parallel]
dp_replicate = "rest"
tp = 1
recompute = "every:2"
[precision]
compute = "fp64"
loss_scale = 1024
[comm]
timeout_seconds = 5
[optimizer]
betas = [0.9, 0.95]
clip = 1
[[optimizer.group]]
match = "*.bias"
weight_decay = 0
[lr_schedule]
name = "cosine"
[checkpoint]
keep_best = true
[train]
steps = 20
)",
                                     "run.toml");
  EXPECT_EQ(config.model.preset, "tiny");
  EXPECT_EQ(config.model.layers, 3);
  EXPECT_EQ(config.model.tied, false);
  EXPECT_EQ(config.data.train, std::vector<std::string>{"a.tokens"});
  EXPECT_EQ(config.data.valid, (std::vector<std::string>{"b.tokens", "c.tokens"}));
  EXPECT_EQ(config.batch.global, 24);
  EXPECT_FALSE(config.batch.micro);
  EXPECT_TRUE(config.parallel.dp_replicate->is_rest);
  EXPECT_EQ(config.parallel.tp->ranks, 1);
  EXPECT_EQ(config.parallel.recompute, "every:2");
  EXPECT_EQ(config.precision.loss_scale, "1024");
  EXPECT_EQ(config.comm.timeout_seconds, 5.0);
  EXPECT_EQ(config.optimizer.betas, (std::vector<double>{0.9, 0.95}));
  EXPECT_EQ(config.optimizer.clip, 1.0);
  EXPECT_EQ(config.optimizer.groups,
            (std::vector<OptimizerGroup>{{.match = "*.bias", .weight_decay = 0.0}}));
  EXPECT_TRUE(config.checkpoint.keep_best);
  EXPECT_EQ(config.train.steps, 20);
}

TEST(Config, UnknownKeysAndWrongTypesAreReportedAllAtOnceWithLineAndNearestKey) {
  const std::string text = complaint(
      "[optimizer]\nlearning = 1\nlrr = 0.1\nlr = \"fast\"\n[modle]\nlayers = 2\n[batch]\nlr = "
      "2\nglobal = 2.5\n");
  EXPECT_THAT(text, HasSubstr("6 problems"));
  EXPECT_THAT(text,
              testing::ContainsRegex("run.toml:2,(.|\n)*run.toml:3,(.|\n)*run.toml:4,(.|\n)*run."
                                     "toml:5,(.|\n)*run.toml:8,(.|\n)*run.toml:9,"));
  EXPECT_THAT(text,
              HasSubstr("run.toml:2, optimizer.learning: there is no key 'learning' in "
                        "[optimizer]. The keys of [optimizer] are name, lr"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "run.toml:3, optimizer.lrr: there is no key 'lrr' in [optimizer]; did you mean 'lr'?"));
  EXPECT_THAT(text, HasSubstr("run.toml:4, optimizer.lr: it is a number, not a string"));
  EXPECT_THAT(text,
              HasSubstr("run.toml:5, modle: there is no section 'modle'; did you mean 'model'?"));
  EXPECT_THAT(text, HasSubstr("run.toml:9, batch.global: it is a whole number, not a number"));
}

TEST(Config, AKeyInTheWrongSectionIsToldWhereItBelongs) {
  EXPECT_THAT(complaint("[train]\nweight_decay = 0.1\n"),
              HasSubstr("'weight_decay' belongs to [optimizer]"));
  EXPECT_THAT(complaint("steps = 3\n"), HasSubstr("'steps' belongs to [train]"));
}

TEST(Config, ValuesOutOfRangeAndUnknownWordsAreNamed) {
  EXPECT_THAT(complaint("[batch]\nmicro = 0\n"),
              HasSubstr("run.toml:2, batch.micro: 0 is less than 1"));
  EXPECT_THAT(complaint("[parallel]\nzero = 4\n"), HasSubstr("4 is more than 3"));
  EXPECT_THAT(
      complaint("[lr_schedule]\nname = \"cosin\"\n"),
      HasSubstr("'cosin' is not one of constant, linear, cosine, wsd; did you mean 'cosine'?"));
  EXPECT_THAT(complaint("[parallel]\nrecompute = \"every:0\"\n"),
              HasSubstr("'every:0' is not one of"));
  EXPECT_THAT(complaint("[parallel]\ntp = \"most\"\n"), HasSubstr("a whole number or \"rest\""));
  EXPECT_THAT(complaint("[optimizer]\nbetas = [0.9]\n"), HasSubstr("two betas"));
  EXPECT_THAT(complaint("[optimizer]\nlr = nan\n"), HasSubstr("nan is not a finite number"));
  EXPECT_THAT(complaint("[[optimizer.group]]\nlr = 0.1\n"),
              HasSubstr("run.toml:1, optimizer.group: the group has no match"));
  EXPECT_THAT(complaint("[[optimizer.group]]\nmatch = \"a\"\nweight_decy = 0.1\n"),
              HasSubstr("did you mean 'weight_decay'?"));
}

TEST(Config, EveryNumberIsFinite) {
  for (const char* text : {"[optimizer]\nlr = inf\n",
                           "[optimizer]\nbetas = [0.9, nan]\n",
                           "[optimizer]\nclip = inf\n",
                           "[comm]\ntimeout_seconds = inf\n",
                           "[[optimizer.group]]\nmatch = \"*\"\nlr = inf\n"})
    EXPECT_THAT(complaint(text), HasSubstr("is not a finite number")) << text;
  EXPECT_THAT(complaint("[precision]\nloss_scale = inf\n"), HasSubstr("'inf' is not one of"));
  EXPECT_THAT(complaint("", {"lr_schedule.min_lr=-inf"}), HasSubstr("is not a finite number"));
}

TEST(Config, NumbersThatNoMachineHoldsAreRefused) {
  const std::string huge = "99999999999999999999";
  for (const char* key : {"batch.global", "train.seed", "model.layers", "parallel.tp"})
    EXPECT_THAT(complaint("", {cat(key, "=", huge)}), HasSubstr("out of the range"));
  for (const char* key : {"layers", "width", "heads", "kv_heads", "ffn_width", "vocab", "context"})
    EXPECT_THAT(complaint(cat("[model]\n", key, " = 4611686018427387904\n")),
                HasSubstr("is more than"));
  for (const char* key : {"sequence", "micro", "accumulation", "global"})
    EXPECT_THAT(complaint("", {cat("batch.", key, "=4294967296000000")}),
                HasSubstr("is more than"));
  EXPECT_THAT(complaint("[comm]\ntimeout_seconds = 1e9\n"), HasSubstr("is more than 31536000"));
}

TEST(Config, BadSyntaxNamesFileAndLine) {
  EXPECT_THAT(complaint("[model]\nlayers = = 3\n"), HasSubstr("run.toml:2: the file is not TOML"));
  EXPECT_THAT(complaint("[model]\nlayers = 3\nlayers = 4\n"), HasSubstr("run.toml:3"));
}

TEST(Config, AMissingFileIsNamed) {
  try {
    load_config("/nowhere/run.toml");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::Storage);
    EXPECT_THAT(error.what(), HasSubstr("/nowhere/run.toml"));
  }
}

TEST(Config, SettingsLieOverTheFileAndTakeBareStrings) {
  const Config config =
      parse_config("[optimizer]\nlr = 1\n",
                   "run.toml",
                   std::vector<std::string>{"optimizer.lr=0.5",
                                            "optimizer.lr=3e-4",
                                            "model.preset=tiny",
                                            "model.file=7",
                                            "data.train=runs/a.tokens",
                                            "data.valid=[\"a\", \"b\"]",
                                            "parallel.tp=rest",
                                            "parallel.recompute=every:2",
                                            "train.reproducible=true",
                                            "optimizer.group=[{match=\"*.bias\", lr=0.1}]"});
  EXPECT_EQ(config.optimizer.lr, 3e-4);
  EXPECT_EQ(config.model.preset, "tiny");
  EXPECT_EQ(config.model.file, "7");
  EXPECT_EQ(config.data.train, std::vector<std::string>{"runs/a.tokens"});
  EXPECT_EQ(config.data.valid, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(config.parallel.tp->is_rest);
  EXPECT_TRUE(config.train.reproducible);
  EXPECT_EQ(config.optimizer.groups, (std::vector<OptimizerGroup>{{.match = "*.bias", .lr = 0.1}}));
}

TEST(Config, AWrongSettingNamesItself) {
  const std::string text = complaint(
      "[trian]\n", {"optimizer.lrr=3", "lr=3", "optimizer.lr=quick", "train.steps=2\nx=3"});
  EXPECT_THAT(text, HasSubstr("5 problems"));
  EXPECT_THAT(
      text,
      HasSubstr("--set optimizer.lrr=3: there is no key 'lrr' in [optimizer]; did you mean 'lr'?"));
  EXPECT_THAT(text, HasSubstr("--set lr=3: it is not section.key=value"));
  EXPECT_THAT(text, HasSubstr("--set optimizer.lr=quick: it is a number, not a string"));
}

// Walks the table: every row is set to a value other than its default, and survives printing.
struct Other {
  std::string word;
  void operator()(bool* value) const { *value = !*value; }
  void operator()(std::int64_t* value) const { *value = *value == 2 ? 3 : 2; }
  void operator()(double* value) const { *value = *value == 0.1 ? 0.2 : 0.1; }
  void operator()(std::string* value) const { *value = word.empty() ? "a \"b\"\\\n\tc" : word; }
  void operator()(AxisSize* value) const { *value = {.is_rest = true}; }
  template <typename Value>
  void operator()(std::optional<Value>* value) const {
    (*this)(&value->emplace());
  }
  template <typename Value>
  void operator()(std::vector<Value>* values) const {
    values->assign(2, {});
    for (Value& value : *values)
      (*this)(&value);
  }
};

TEST(Config, EveryKeySurvivesPrinting) {
  for (const auto& row : schema::rows()) {
    Config config;
    std::visit(Other{row.words.empty()               ? ""
                     : row.words.back() == "N"       ? "2.5"
                     : row.words.back() == "every:N" ? "every:3"
                                                     : row.words.back()},
               row.field(config));
    EXPECT_EQ(parse_config(print_config(config), "printed"), config)
        << row.section << "." << row.key << "\n"
        << print_config(config);
  }
  Config config;
  config.optimizer.groups = {{.match = "*.bias", .weight_decay = 0.0},
                             {.match = "head.*", .lr = 1e-5}};
  EXPECT_EQ(parse_config(print_config(config), "printed"), config);
}

TEST(Config, EveryKeyIsInTheReference) {
  const std::string reference = config_reference();
  for (const auto& row : schema::rows())
    EXPECT_THAT(reference, HasSubstr(cat("| `", row.key, "` |")));
  EXPECT_THAT(reference, HasSubstr("### `[optimizer.group]`"));
  EXPECT_THAT(reference, Not(HasSubstr("|  |")));
}

}  // namespace
}  // namespace lockstep
