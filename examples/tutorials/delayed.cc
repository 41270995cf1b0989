// SPDX-License-Identifier: Apache-2.0
// docs/tutorials/delayed.md: ranks average their parameters after every fourth step.
#include <cstdio>

#include <rueda/torch.h>
#include <torch/torch.h>

int main() try {
  rueda::init();
  torch::manual_seed(rueda::rank());
  auto model = torch::nn::Linear(8, 1);
  rueda::broadcast_parameters(*model, 0);
  rueda::DistributedOptimizer<torch::optim::SGD> optimizer(model->parameters(), torch::optim::SGDOptions(0.1),
                                                           {.schedule = rueda::SyncSchedule::local_sgd(4)});
  for (int step = 0; step < 50; ++step) {
    const auto input = torch::randn({32, 8});
    optimizer.zero_grad();
    torch::mse_loss(model->forward(input), input.sum(1, true)).backward();
    optimizer.step();
  }
  optimizer.flush();  // every rank calls it; afterwards all have the same parameters
  std::printf("rank %d: sum of the weights %.6f\n", rueda::rank(), model->weight.sum().item<double>());
  rueda::shutdown();
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
