// A byte model on real text, data parallel: lockstep run -n 2 -- build/examples/minimal_ddp TOKENS
#include <cstdio>

#include <torch/torch.h>

#include "lockstep/comm/rank_main.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/pure/token_file.h"
#include "lockstep/parallel/sharded/data_parallel.h"

void train(lockstep::World& world, const std::string& file) {
  auto text = std::make_shared<lockstep::TokenSequences>(std::span(&file, 1), 32);
  lockstep::DistributedSampler sampler(
      {.num_samples = text->size(), .seed = 7},
      {.rank = world.rank().value, .num_ranks = world.size(), .micro = 16});
  auto all_ranks = [&](auto mine) { return world.all().gather_text(mine, "sampling"); };
  lockstep::DataLoader loader(
      lockstep::token_dataset(text), std::move(sampler), {.gather = all_ranks});
  namespace nn = torch::nn;
  nn::Sequential model(
      nn::Embedding(256, 64), nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 256));
  lockstep::DataParallel parallel(*model, world.all());
  torch::optim::AdamW optimizer(model->parameters(), 3e-3);
  for (int step = 1; step <= 100; ++step) {
    const lockstep::Examples batch = loader.next()->examples;
    auto loss = nn::functional::cross_entropy(model->forward(batch.inputs).flatten(0, 1),
                                              batch.targets.flatten());
    optimizer.zero_grad();
    loss.backward();  // gradients are now the mean over all ranks
    optimizer.step();
    if (step % 20 == 0 && world.rank().value == 0)
      std::printf("step %d loss %.3f\n", step, loss.item<double>());
  }
}

int main(int argc, char** argv) {  // an error on one rank ends the others and tells its cause
  const std::string file = argc > 1 ? argv[1] : "data/demo/train.tokens";
  return lockstep::rank_main([&](lockstep::World& world) { train(world, file); });
}
