// SPDX-License-Identifier: Apache-2.0
#include "tests/support/training/scheduled_training.h"

#include <gtest/gtest.h>

#include "core/engine/runtime.h"
#include "tests/support/worlds/memory_world.h"

namespace rueda {

torch::optim::SGDOptions scheduled_sgd() { return torch::optim::SGDOptions(0.2).momentum(0.9); }

Batch batch_of(Rank rank, int step) {
  return make_batch(kScheduledRows * (kScheduledRanks * step + rank), kScheduledRows);
}

void step_by(DistributedSgd& optimizer, const at::Tensor& weight, double gradient) {
  optimizer.zero_grad();
  (weight * gradient).sum().backward();
  optimizer.step();
}

std::vector<at::Tensor> values_of(const Regression& model) {
  std::vector<at::Tensor> values;
  for (const at::Tensor& tensor : model.tensors()) values.push_back(tensor.detach().clone());
  return values;
}

void expect_near(const Regression& model, const std::vector<at::Tensor>& expected, double tolerance) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_LT(difference(model[i].detach(), expected[i]), tolerance) << model.named[i].first;
}

void on_scheduled_ranks(const SyncSchedule& schedule,
                        const std::function<void(DistributedSgd&, Regression&, Rank)>& body) {
  const auto run = [&](Runtime& runtime) {
    Regression model;
    DistributedSgd optimizer(model.tensors(), scheduled_sgd(),
                             {.named_parameters = model.named, .schedule = schedule}, runtime);
    body(optimizer, model, runtime.topology().rank);
  };
  run_ranks(kScheduledRanks, run);
  run_on_one_host(kScheduledRanks, run);
}

}  // namespace rueda
