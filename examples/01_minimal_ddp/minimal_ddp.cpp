// A byte model on real text, data parallel: lockstep run -n 2 -- build/examples/minimal_ddp TOKENS
#include <cstdio>

#include <torch/torch.h>

#include "lockstep/comm/world.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/pure/token_file.h"
#include "lockstep/parallel/sharded/data_parallel.h"

int main(int argc, char** argv) {
  lockstep::World world = lockstep::World::from_environment();
  const std::vector<std::string> files = {argc > 1 ? argv[1] : "data/demo/train.tokens"};
  auto text = std::make_shared<lockstep::TokenSequences>(files, 32);
  lockstep::DataLoader loader(
      lockstep::token_dataset(text),
      lockstep::DistributedSampler(
          {.num_samples = text->size(), .seed = 7},
          {.rank = world.rank().value, .num_ranks = world.size(), .micro = 16}));

  torch::nn::Sequential model(torch::nn::Embedding(256, 64),
                              torch::nn::Linear(64, 128),
                              torch::nn::ReLU(),
                              torch::nn::Linear(128, 256));
  lockstep::DataParallel parallel(*model, world.all());
  torch::optim::AdamW optimizer(model->parameters(), 3e-3);

  for (int step = 1; step <= 100; ++step) {
    const lockstep::Examples batch = loader.next()->examples;
    auto loss = torch::nn::functional::cross_entropy(model->forward(batch.inputs).flatten(0, 1),
                                                     batch.targets.flatten());
    optimizer.zero_grad();
    loss.backward();  // gradients are now the mean over all ranks
    optimizer.step();
    if (step % 20 == 0 && world.rank().value == 0)
      std::printf("step %d loss %.3f\n", step, loss.item<double>());
  }
  world.finish();
}
