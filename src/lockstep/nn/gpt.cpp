// SPDX-License-Identifier: Apache-2.0
#include "lockstep/nn/gpt.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lockstep/base/error.h"
#include "lockstep/base/philox.h"
#include "lockstep/base/text.h"

namespace lockstep::nn {

/// Token plus position.
class Gpt::Embedding : public torch::nn::Module {
 public:
  Embedding(const Parameters& parameters, const GptConfig& config)
      : ops_(parameters.ops()),
        site_{.id = hash_name("embedding"), .rate = config.dropout},
        token_(register_module("token", std::make_shared<Table>(parameters.scope("token")))),
        position_(
            register_module("position", std::make_shared<Table>(parameters.scope("position")))) {}

  at::Tensor forward(const at::Tensor& ids,
                     std::int64_t first_position,
                     const ForwardContext& context) const {
    const at::Tensor positions = position_->weight().narrow(0, first_position, ids.size(1));
    return ops_->dropout(token_->forward(ids) + positions, site_, context);
  }
  const at::Tensor& token_weight() const { return token_->weight(); }

 private:
  std::shared_ptr<const tensor::Ops> ops_;  // shared by all modules
  tensor::DropoutSite site_;
  std::shared_ptr<Table> token_;     // shared with the module tree
  std::shared_ptr<Table> position_;  // shared with the module tree
};

/// The last norm and the product with the vocabulary.
class Gpt::Head : public torch::nn::Module {
 public:
  /// `tied`: the embedding's parameter, or undefined for one of its own.
  Head(const Parameters& parameters, const GptConfig& config, const at::Tensor& tied)
      : ops_(parameters.ops()),
        weight_(tied.defined() ? tied : register_parameter("weight", parameters.make("weight"))),
        norm_(register_module("norm",
                              std::make_shared<Norm>(parameters.scope("norm"), config.norm_eps))) {}

  at::Tensor logits(const at::Tensor& x) const {
    return ops_->linear(norm_->forward(x), weight_, at::Tensor(), tensor::LinearKind::Whole);
  }
  LossSum loss(const at::Tensor& x,
               const at::Tensor& targets,
               const tensor::LossOptions& options) const {
    return ops_->loss(norm_->forward(x), weight_, targets, options);
  }

 private:
  std::shared_ptr<const tensor::Ops> ops_;  // shared by all modules
  at::Tensor weight_;
  std::shared_ptr<Norm> norm_;  // shared with the module tree
};

Gpt::Gpt(const ModelSpec& spec, const BuildOptions& options)
    : spec_(spec),
      region_(options.region ? options.region : std::make_shared<Region>()),
      loss_(options.loss) {
  const GptConfig& config = spec_.gpt();
  const Parameters parameters(spec_, options);
  embedding_ = register_module("embedding",
                               std::make_shared<Embedding>(parameters.scope("embedding"), config));
  const auto layers = register_module("layers", std::make_shared<torch::nn::Module>());
  const Parameters of_layers = parameters.scope("layers");
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string name = cat(layer);
    layers_.push_back(
        layers->register_module(name, std::make_shared<Block>(of_layers.scope(name), config)));
  }
  const at::Tensor tied = config.tied ? embedding_->token_weight() : at::Tensor();
  head_ = register_module("head", std::make_shared<Head>(parameters.scope("head"), config, tied));
}

at::Tensor Gpt::run_blocks(const at::Tensor& ids, const ForwardContext& context, KvCache* cache) {
  const std::int64_t first = cache == nullptr ? 0 : cache->length;
  const std::int64_t limit = spec_.gpt().context;
  if (ids.dim() != 2 || first + ids.size(1) > limit) {
    throw Error({.fault = Fault::Usage,
                 .where = {.subject = spec_.name},
                 .problem = ids.dim() != 2 ? "tokens must be [batch, tokens]"
                                           : "the sequence is longer than the model's context",
                 .expected = cat("at most ", limit, " tokens"),
                 .found = ids.dim() != 2 ? cat(ids.dim(), " dims") : cat(first + ids.size(1)),
                 .next = "Shorten the sequence (batch.sequence), or build the model with a larger "
                         "model.context"});
  }
  at::Tensor x =
      region_->run("embedding", {ids}, [this, first, context](const Tensors& in) -> Tensors {
        return {embedding_->forward(in[0], first, context)};
      })[0];
  for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
    LayerCache* held = cache == nullptr ? nullptr : &cache->layers[layer];
    x = region_->run(spec_.units[layer + 1],
                     {x},
                     [block = layers_[layer].get(), context, held](const Tensors& in) -> Tensors {
                       return {block->forward(in[0], context, held)};
                     })[0];
  }
  return x;
}

LossSum Gpt::loss(const at::Tensor& ids, const at::Tensor& targets, const ForwardContext& context) {
  const at::Tensor x = run_blocks(ids, context, nullptr);
  const Tensors out = region_->run("head", {x, targets}, [this](const Tensors& in) -> Tensors {
    const LossSum result = head_->loss(in[0], in[1], loss_);
    return {result.sum, result.count};
  });
  return {.sum = out[0], .count = out[1]};
}

at::Tensor Gpt::forward(const at::Tensor& ids, const ForwardContext& context) {
  const at::Tensor x = run_blocks(ids, context, nullptr);
  return region_->run(
      "head", {x}, [this](const Tensors& in) -> Tensors { return {head_->logits(in[0])}; })[0];
}

at::Tensor Gpt::next_logits(const at::Tensor& ids, KvCache& cache) {
  const at::NoGradGuard no_gradients;
  cache.layers.resize(layers_.size());
  const at::Tensor x = run_blocks(ids, ForwardContext{}, &cache);
  cache.length += ids.size(1);
  const at::Tensor last = x.select(1, x.size(1) - 1);
  return region_->run(
      "head", {last}, [this](const Tensors& in) -> Tensors { return {head_->logits(in[0])}; })[0];
}

}  // namespace lockstep::nn
