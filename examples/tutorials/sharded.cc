// SPDX-License-Identifier: Apache-2.0
// docs/tutorials/sharding.md: each rank keeps and steps a part of the optimizer's state.
#include <cstdio>

#include <rueda/torch.h>
#include <torch/torch.h>

int main() try {
  rueda::init();
  torch::manual_seed(rueda::rank());
  auto model = torch::nn::Linear(8, 1);
  rueda::broadcast_parameters(*model, 0);
  rueda::ShardedOptimizer<rueda::FusedAdamW> optimizer(model->parameters(), torch::optim::AdamWOptions(0.05));
  for (int step = 0; step < 200; ++step) {
    const auto input = torch::randn({32, 8});
    optimizer.zero_grad();
    torch::mse_loss(model->forward(input), input.sum(1, true)).backward();
    optimizer.step();
  }
  std::printf("rank %d: sum of the weights %.6f\n", rueda::rank(), model->weight.sum().item<double>());
  rueda::shutdown();
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
