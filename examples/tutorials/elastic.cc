// SPDX-License-Identifier: Apache-2.0
// docs/tutorials/elastic.md: training that goes on when ranks are killed, and lets others in.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <rueda/torch.h>
#include <torch/torch.h>

namespace {

// Of one epoch, equal on all ranks.
torch::Tensor samples_of(std::size_t epoch) {
  torch::manual_seed(epoch);
  return torch::randn({2048, 8});
}

}  // namespace

int main(int count, char** arguments) try {
  const std::chrono::milliseconds work(count > 1 ? std::atoi(arguments[1]) : 0);
  rueda::init();
  auto model = torch::nn::Linear(8, 1);
  rueda::DistributedOptimizer<torch::optim::SGD> optimizer(model->parameters(),
                                                           torch::optim::SGDOptions(0.05));
  rueda::elastic::Sampler sampler(2048);
  std::int64_t step = 0;
  rueda::elastic::State state(
      {{"model", model}, {"optimizer", optimizer}, {"sampler", sampler}, {"step", step}});
  rueda::elastic::run(state, [&] {
    while (sampler.epoch() < 3) {
      const auto samples = samples_of(sampler.epoch());
      while (const auto batch = sampler.next(32)) {
        const auto rows = torch::tensor(std::vector<std::int64_t>(batch->begin(), batch->end()));
        const auto input = samples.index_select(0, rows);
        optimizer.zero_grad();
        torch::mse_loss(model->forward(input), input.sum(1, true)).backward();
        std::this_thread::sleep_for(work);
        optimizer.step();
        sampler.record_batch(batch->size());
        ++step;
        state.commit();  // restored after a failure
      }
      sampler.set_epoch(sampler.epoch() + 1);
      state.commit();
    }
  });
  std::printf("rank %d: sum of the weights %.6f\n", rueda::rank(), model->weight.sum().item<double>());
  rueda::shutdown();
} catch (const rueda::LeftJob&) {  // this host is to go, and the others train on
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
