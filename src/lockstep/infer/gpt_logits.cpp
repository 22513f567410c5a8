// SPDX-License-Identifier: Apache-2.0
#include "lockstep/infer/gpt_logits.h"

#include <ATen/ATen.h>

#include "lockstep/nn/gpt.h"

namespace lockstep::infer {

NextLogits cached_logits(std::shared_ptr<nn::Gpt> model) {
  auto cache = std::make_shared<nn::KvCache>();  // shared by copies of the function
  return [model = std::move(model), cache = std::move(cache)](std::span<const std::int64_t> window,
                                                              std::size_t fresh) {
    if (fresh == window.size()) {
      *cache = {};
    }
    const std::span<const std::int64_t> last = window.last(fresh);
    at::Tensor ids = at::empty({1, static_cast<std::int64_t>(fresh)}, at::kLong);
    std::copy(last.begin(), last.end(), ids.mutable_data_ptr<std::int64_t>());
    const at::Tensor device_ids = ids.to(model->parameters().front().device());
    const at::Tensor logits =
        model->next_logits(device_ids, *cache).to(at::kCPU, at::kFloat).contiguous();
    const float* begin = logits.const_data_ptr<float>();
    return std::vector<float>(begin, begin + logits.numel());
  };
}

}  // namespace lockstep::infer
