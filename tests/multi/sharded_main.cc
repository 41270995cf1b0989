// SPDX-License-Identifier: Apache-2.0
// One rank of a job that trains with a ShardedOptimizer; tests/python/test_sharded.py starts it:
// sharded_rank trains|killed
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <c10/core/GradMode.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <rueda/rueda_torch.h>
#include "tests/support/process_watchdog.h"
#include "tests/support/regression.h"

namespace {

// Ends rank 1's process in the middle of its third step.
class Killer : public torch::optim::SGD {
 public:
  using SGD::SGD;
  at::Tensor step(LossClosure closure = nullptr) override {
    if (rueda::rank() == 1 && ++steps_ == 3) {
      const at::NoGradGuard no_grad;
      param_groups()[0].params()[0].narrow(0, 0, 10).fill_(1e30);  // torn
      std::fflush(stdout);
      kill(getpid(), SIGKILL);
    }
    return SGD::step(std::move(closure));
  }

 private:
  int steps_ = 0;
};

std::vector<at::Tensor> make_model() {
  return {rueda::make_parameter({300, 200}, 1, at::kFloat), rueda::make_parameter({200}, 2, at::kFloat)};
}

template <class Optimizer, class Options>
void train(const std::vector<at::Tensor>& model, const Options& options) {
  Optimizer optimizer(model, options);
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    const int row = step * rueda::size() + rueda::rank();
    for (const at::Tensor& parameter : model)
      (parameter * rueda::make_parameter(parameter.sizes(), row, at::kFloat).detach()).sum().backward();
    optimizer.step();
  }
}

}  // namespace

template <>
inline constexpr bool rueda::is_elementwise<Killer> = true;

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const rueda::ProcessWatchdog watchdog(std::chrono::seconds(60));
  try {
    rueda::init();
    std::printf("rank %d is process %d\n", rueda::rank(), getpid());
    std::fflush(stdout);
    if (mode == "killed") train<rueda::ShardedOptimizer<Killer>>(make_model(), torch::optim::SGDOptions(0.1));
    const auto whole = make_model(), parts = make_model();
    train<rueda::DistributedOptimizer<rueda::FusedAdamW>>(whole, torch::optim::AdamWOptions(0.01));
    train<rueda::ShardedOptimizer<rueda::FusedAdamW>>(parts, torch::optim::AdamWOptions(0.01));
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (!at::equal(whole[i], parts[i]))
        throw std::runtime_error("bits differ in parameter " + std::to_string(i));
    }
    std::printf("rank %d has the same bits\n", rueda::rank());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
