// SPDX-License-Identifier: Apache-2.0
// What tests of delayed synchronisation train: a Regression on each rank, by SGD, on batches of its own.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <vector>

#include "rueda/torch/reducer/distributed_optimizer.h"
#include "tests/support/training/regression.h"

namespace rueda {

using DistributedSgd = DistributedOptimizer<torch::optim::SGD>;

constexpr Rank kScheduledRanks = 3;
constexpr std::int64_t kScheduledRows = 4;

torch::optim::SGDOptions scheduled_sgd();
// The rows of a rank in step `step`.
Batch batch_of(Rank rank, int step);

// A step by that batch.
void train_step(auto& optimizer, const Regression& model, Rank rank, int index) {
  optimizer.zero_grad();
  model.loss(batch_of(rank, index)).backward();
  optimizer.step();
}
// A step of one parameter, by a gradient of that value everywhere.
void step_by(DistributedSgd& optimizer, const at::Tensor& weight, double gradient);

// Copies of the parameters, and whether they are still near them.
std::vector<at::Tensor> values_of(const Regression& model);
void expect_near(const Regression& model, const std::vector<at::Tensor>& expected, double tolerance = 1e-12);

// What `body` does on each rank with an optimizer of that schedule: over links, and in shared memory.
void on_scheduled_ranks(const SyncSchedule& schedule,
                        const std::function<void(DistributedSgd&, Regression&, Rank)>& body);

}  // namespace rueda
