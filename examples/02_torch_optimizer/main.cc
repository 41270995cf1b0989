// SPDX-License-Identifier: Apache-2.0
// A model that several ranks train together. The lines with numbers are all that Rueda adds.
//
//   build/bin/ruedarun -np 2 build/bin/torch_optimizer
#include <cstdio>

#include <rueda/torch.h>
#include <torch/torch.h>

int main() try {
  rueda::init();                      // 1. find the other ranks
  torch::manual_seed(rueda::rank());  // each rank has its own start and its own data
  auto model = torch::nn::Linear(8, 1);
  rueda::broadcast_parameters(*model, 0);                    // 2. all ranks begin with rank 0's parameters
  rueda::DistributedOptimizer<torch::optim::SGD> optimizer(  // 3. wrap the optimizer that you have
      model->parameters(), torch::optim::SGDOptions(0.1));

  double loss_of_step = 0;
  for (int step = 0; step < 100; ++step) {
    const auto input = torch::randn({32, 8});
    const auto target = input.sum(1, true) + 0.1 * torch::randn({32, 1});  // the function to learn
    optimizer.zero_grad();
    auto loss = torch::mse_loss(model->forward(input), target);
    loss.backward();   // gradients are averaged meanwhile
    optimizer.step();  // waits for the averages, then steps
    loss_of_step = loss.item<double>();
  }
  const double sum = model->weight.sum().item<double>();
  std::printf("rank %d of %d: loss %.6f, sum of the weights %.6f\n", rueda::rank(), rueda::size(),
              loss_of_step, sum);
  rueda::shutdown();  // 4. leave together
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
