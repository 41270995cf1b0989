// SPDX-License-Identifier: Apache-2.0
// Training on devices of which every gradient is known.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <optional>
#include <vector>

#include "core/engine/runtime.h"
#include "rueda/torch/reducer/distributed_optimizer.h"

namespace rueda {

// Purpose: parameters of float32, with slots for gradients, whose gradients are this rank's number, from 1
// on, times another factor for each. They come in the reverse order.
struct DeviceTraining {
  DeviceTraining(Runtime& runtime, at::Device device, const std::vector<std::vector<std::int64_t>>& shapes,
                 DistributedOptions options = {})
      : mine(static_cast<double>(runtime.topology().rank) + 1.0) {
    for (const auto& shape : shapes)
      leaves.push_back(at::ones(shape, at::TensorOptions(at::kFloat).device(device)).requires_grad_());
    if (options.groups.empty() && options.low_rank.rank == 0) options.groups = {leaves};  // so one Plan
    options.device_window = true;
    optimizer.emplace(leaves, torch::optim::SGDOptions(0.0), options, runtime);
  }

  at::Tensor loss() const {
    at::Tensor loss = (leaves[0] * mine).sum();
    for (std::size_t i = 1; i < leaves.size(); ++i)
      loss = loss + (leaves[i] * (mine * (static_cast<double>(i) + 1.0))).sum();
    return loss;
  }
  void step(bool set_to_none = true) {
    optimizer->zero_grad(set_to_none);
    loss().backward();
    optimizer->step();
  }
  at::Tensor grad(std::size_t i) const { return leaves[i].grad(); }
  std::vector<const void*> gradient_addresses() const {
    std::vector<const void*> addresses;
    for (const at::Tensor& leaf : leaves) addresses.push_back(leaf.grad().const_data_ptr());
    return addresses;
  }
  // Of two ranks: 1.5 times the factor of each.
  void expect_means(double mean = 1.5) const {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const at::Tensor grad = leaves[i].grad().cpu();
      EXPECT_TRUE(at::equal(grad, at::full_like(grad, mean * (static_cast<double>(i) + 1.0)))) << i << grad;
    }
  }

  const double mine;
  std::vector<at::Tensor> leaves;
  std::optional<DistributedOptimizer<torch::optim::SGD>> optimizer;
};

}  // namespace rueda
