// A model of your own under all that the library has: sampler and loader, counted losses, accumulation, clipping and a
// learning-rate schedule, a checkpoint that any number of ranks can read. lockstep run -n 2 -- build/examples/own_model
#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <torch/torch.h>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/rank_main.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/pure/token_file.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/pure/lr_schedule.h"
#include "lockstep/parallel/sharded/data_parallel.h"

namespace {

// Any torch::nn::Module: a recurrent net over bytes, with a layer that is used twice.
struct Net : torch::nn::Module {
  Net() {
    embed = register_module("embed", torch::nn::Embedding(256, 48));
    cell = register_module("cell", torch::nn::GRU(torch::nn::GRUOptions(48, 96).batch_first(true)));
    mix = register_module("mix", torch::nn::Linear(96, 96));
    head = register_module("head", torch::nn::Linear(96, 256));
  }

  torch::Tensor loss_sum(const torch::Tensor& inputs, const torch::Tensor& targets) {
    auto x = std::get<0>(cell->forward(embed->forward(inputs)));
    x = torch::relu(mix->forward(torch::relu(mix->forward(x))));
    return torch::nn::functional::cross_entropy(
        head->forward(x).flatten(0, 1),
        targets.flatten(),
        torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
  }

  torch::nn::Embedding embed{nullptr};
  torch::nn::GRU cell{nullptr};
  torch::nn::Linear mix{nullptr}, head{nullptr};
};

constexpr int kSteps = 40;
constexpr int kAccumulation = 2;

double train(lockstep::World& world, const std::string& file, Net& net) {
  auto text = std::make_shared<lockstep::TokenSequences>(std::vector<std::string>{file}, 32);
  const int micro = std::max(1, 16 / world.size());
  const auto all_ranks = [&](std::string_view mine) {
    return world.all().gather_text(mine, "sampling");
  };
  lockstep::DataLoader loader(lockstep::token_dataset(text),
                              lockstep::DistributedSampler({.num_samples = text->size(), .seed = 7},
                                                           {.rank = world.rank().value,
                                                            .num_ranks = world.size(),
                                                            .micro = micro,
                                                            .accumulation = kAccumulation}),
                              {.gather = all_ranks});
  lockstep::DataParallel parallel(net, world.all());
  auto optimizer =
      lockstep::optim::make_optimizer(parallel, {.name = "adamw", .lr = 3e-3, .clip = 1});
  lockstep::optim::LrSchedule schedule(
      {.name = "cosine", .base = 3e-3, .steps = kSteps, .warmup = 5});

  double mean = 0;
  for (int step = 1; step <= kSteps; ++step) {
    double sum = 0;
    std::int64_t tokens = 0;
    for (int k = 0; k < kAccumulation; ++k) {
      const lockstep::Examples batch = loader.next()->examples;
      auto loss = net.loss_sum(batch.inputs, batch.targets);
      sum += loss.item<double>();
      tokens += batch.targets.numel();
      if (k + 1 < kAccumulation) {
        auto guard = parallel.no_sync();
        parallel.backward(loss, batch.targets.numel());
      } else {
        parallel.backward(loss, batch.targets.numel());
      }
    }
    const auto result = optimizer->step(schedule.at(step) / 3e-3);
    optimizer->zero_grad();
    mean = sum / static_cast<double>(tokens);
    if (step % 10 == 0 && world.rank().value == 0) {
      std::printf("step %d loss %.3f norm %.3f\n", step, mean, result.grad_norm);
    }
  }
  return mean;
}

void train_and_save(lockstep::World& world, const std::string& file) {
  Net net;  // whatever the ranks start with, wrapping makes them equal to rank 0
  train(world, file, net);

  lockstep::checkpoint::Snapshot snapshot{.step = kSteps};
  for (const auto& parameter : net.named_parameters()) {
    snapshot.tensors.push_back(
        lockstep::checkpoint::whole_tensor(parameter.key(), parameter.value().detach()));
  }
  lockstep::checkpoint::save(
      lockstep::checkpoint::RunFolder("runs/own_model"), snapshot, world.all());
  if (world.rank().value == 0)
    std::puts("saved runs/own_model");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string file = argc > 1 ? argv[1] : "data/demo/train.tokens";
  return lockstep::rank_main([&](lockstep::World& world) { train_and_save(world, file); });
}
