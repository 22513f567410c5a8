// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "lockstep/nn/blocks.h"
#include "lockstep/nn/model.h"

namespace lockstep::nn {

/// Keys and values of everything a GPT was given so far: one conversation's memory.
struct KvCache {
  std::vector<LayerCache> layers;
  std::int64_t length = 0;  ///< tokens held
};

/// A GPT as gpt_spec describes it. Its regions are the spec's units: embedding, layers.0 ..., head
/// (last norm, head and loss). Where tied the head uses the embedding's parameter, which has one
/// name: embedding.token.weight.
class Gpt final : public Model {
 public:
  Gpt(const ModelSpec& spec, const BuildOptions& options);

  LossSum loss(const at::Tensor& ids,
               const at::Tensor& targets,
               const ForwardContext& context) override;
  at::Tensor forward(const at::Tensor& ids, const ForwardContext& context) override;

  /// Logits [B, V] after the last of `ids` [B, T], which follow what `cache` holds; the cache then
  /// holds them too. Equal to the last row of forward() on all of it.
  /// Throws Usage when that is
  /// more than the context. Without gradients.
  at::Tensor next_logits(const at::Tensor& ids, KvCache& cache);

  const ModelSpec& spec() const override { return spec_; }

 private:
  class Embedding;
  class Head;
  struct Step;

  at::Tensor run_blocks(const at::Tensor& ids, const ForwardContext& context, KvCache* cache);

  ModelSpec spec_;
  std::shared_ptr<Region> region_;  // shared with whoever decorates it
  tensor::LossOptions loss_;
  std::shared_ptr<Embedding> embedding_;  // these three are shared with the module tree
  std::vector<std::shared_ptr<Block>> layers_;
  std::shared_ptr<Head> head_;
};

}  // namespace lockstep::nn
