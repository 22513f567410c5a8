// One process, as you would write it with libtorch alone. parallel.cpp is the same on many: compare them line by line.
#include <cstdio>

#include <torch/torch.h>

#include "text.h"

void train(const std::string& file) {
  Text text(file);
  torch::manual_seed(1);
  torch::nn::Sequential model(torch::nn::Embedding(256, 32), torch::nn::Linear(32, 256));
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(1.0).momentum(0.9));

  for (int step = 1; step <= 50; ++step) {
    Batch batch = text.batch(step);
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
  train(file);
}
