// SPDX-License-Identifier: Apache-2.0
#include "lockstep/infer/gpt_logits.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/model/architectures.h"
#include "lockstep/nn/gpt.h"

namespace lockstep::infer {
namespace {

std::shared_ptr<nn::Gpt> model() {
  const ModelSpec spec =
      gpt_spec("small", {.layers = 2, .width = 24, .heads = 3, .vocab = 40, .context = 10});
  const auto made =
      std::make_shared<nn::Gpt>(spec, nn::BuildOptions{.seed = 2, .dtype = at::kDouble});
  const at::NoGradGuard no_gradients;
  for (at::Tensor& parameter : made->parameters()) {
    parameter.mul_(8);  // far from even, so that choices are clear
  }
  return made;
}

/// Without a cache: the whole window, every time.
NextLogits plain_logits(const std::shared_ptr<nn::Gpt>& gpt) {
  return [gpt](std::span<const std::int64_t> window, std::size_t) {
    const at::NoGradGuard no_gradients;
    const at::Tensor ids =
        at::tensor(at::IntArrayRef(window.data(), window.size()), at::kLong).unsqueeze(0);
    const at::Tensor last = gpt->forward(ids, {})
                                .select(1, static_cast<std::int64_t>(window.size()) - 1)
                                .to(at::kFloat)
                                .contiguous();
    return std::vector<float>(last.data_ptr<float>(), last.data_ptr<float>() + last.numel());
  };
}

TEST(CachedLogits, MakeTheTextThatRecomputingMakesBeyondTheContext) {
  const auto gpt = model();
  const std::vector<std::int64_t> prompt{7, 1, 30};
  for (const double temperature : {0.0, 1.0}) {
    const GenerateOptions options{
        .max_new_tokens = 40, .context = 10, .sampling = {.temperature = temperature, .seed = 6}};
    const auto cached = generate(prompt, cached_logits(gpt), options);
    EXPECT_EQ(cached, generate(prompt, plain_logits(gpt), options));
    EXPECT_EQ(cached.size(), 40U);
  }
}

TEST(CachedLogits, GreedyTextIsTheArgmaxOfTheModel) {
  const auto gpt = model();
  std::vector<std::int64_t> window{4, 9};
  const auto made =
      generate(window,
               cached_logits(gpt),
               {.max_new_tokens = 8, .context = 10, .sampling = {.temperature = 0.0}});
  for (const std::int64_t token : made) {
    const at::Tensor ids = at::tensor(at::IntArrayRef(window), at::kLong).unsqueeze(0);
    EXPECT_EQ(gpt->forward(ids, {})[0][static_cast<std::int64_t>(window.size()) - 1]
                  .argmax()
                  .item<std::int64_t>(),
              token);
    window.push_back(token);
  }
}

TEST(CachedLogits, StartOverWithANewPrompt) {
  const NextLogits next = cached_logits(model());
  const std::vector<std::int64_t> first{1, 2, 3};
  const std::vector<std::int64_t> second{9, 9};
  const auto before = next(second, 2);
  next(first, 3);
  EXPECT_EQ(next(second, 2), before);
}

}  // namespace
}  // namespace lockstep::infer
