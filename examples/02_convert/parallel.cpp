// single.cpp on many processes: lockstep run -n 2 -- build/examples/parallel
#include <cstdio>

#include <torch/torch.h>

#include "lockstep/comm/rank_main.h"
#include "lockstep/parallel/sharded/data_parallel.h"

#include "text.h"

void train(lockstep::World& world, const std::string& file) {
  Text text(file);
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Embedding(256, 32), torch::nn::Linear(32, 256));
  lockstep::DataParallel parallel(*model, world.all());
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1.0).momentum(0.9));

  for (int step = 1; step <= 50; ++step) {
    Batch batch = text.batch(step, world.rank().value, world.size());
    auto logits = model->forward(batch.inputs).flatten(0, 1);
    auto loss = torch::nn::functional::cross_entropy(logits, batch.targets.flatten());
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    if (step % 10 == 0)
      std::printf("step %d loss %.4f\n", step, loss.item<double>());
  }
  std::printf("weights %.6f\n", model->parameters()[0].square().sum().item<double>());
}

int main(int argc, char** argv) {
  const std::string file = argc > 1 ? argv[1] : "data/demo/train.tokens";
  return lockstep::rank_main([&](lockstep::World& world) { train(world, file); });
}
