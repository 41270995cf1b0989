// SPDX-License-Identifier: Apache-2.0
// A user's program: ranks that begin differently and see other data have the same model after some steps.
#include <rueda/torch.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cstdio>
#include <exception>

int main() {
  try {
    rueda::init();
    if (rueda::size() != 2) throw std::runtime_error("expected 2 ranks");
    torch::manual_seed(rueda::rank());
    torch::nn::Sequential model(torch::nn::Linear(4, 3), torch::nn::BatchNorm1d(3), torch::nn::Linear(3, 1));
    rueda::broadcast_parameters(*model, 0);
    rueda::DistributedOptimizer<torch::optim::SGD> optimizer(model->parameters(),
                                                             torch::optim::SGDOptions(0.1));
    const at::Tensor begin = model->parameters().front().detach().clone();
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      model->forward(torch::randn({8, 4})).square().mean().backward();
      optimizer.step();
    }
    if (begin.equal(model->parameters().front())) throw std::runtime_error("nothing was learned");
    for (const auto& item : model->named_parameters()) {
      const at::Tensor both = rueda::allgather(item.value().detach().unsqueeze(0), item.key());
      if (!both[0].equal(both[1])) throw std::runtime_error(item.key() + " differs");
    }
    std::printf("rank %d of %d: the ranks agree\n", rueda::rank(), rueda::size());
    rueda::shutdown();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
