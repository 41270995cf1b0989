// SPDX-License-Identifier: Apache-2.0
// A small torch module of layers, for tests of what happens layer by layer: the same on every rank.
#pragma once

#include <ATen/ops/linear.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/square.h>
#include <ATen/ops/tanh.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rueda/torch/sharding/unit_runner.h"
#include "tests/support/training/regression.h"

namespace rueda {

// Purpose: one layer of a LayeredModel.
struct Layer : torch::nn::Module {
  Layer(std::int64_t from, int seed)
      : weight(register_parameter("weight", make_parameter({8, from}, seed))),
        bias(register_parameter("bias", make_parameter({8}, seed + 1))) {}
  at::Tensor forward(const at::Tensor& input) const {
    const at::Tensor hidden = at::linear(input, weight);
    return (biased ? hidden + bias : hidden).tanh();
  }
  at::Tensor weight;
  at::Tensor bias;
  bool biased = true;
};

// Purpose: layer0, layer1, ..., and `head`, which is in none of them. Used by one thread.
struct LayeredModel : torch::nn::Module {
  explicit LayeredModel(int count = 3, bool tied = false)
      : head(register_parameter("head", make_parameter({2, 8}, 9))) {
    for (int i = 0; i < count; ++i)
      layers.push_back(
          register_module(fmt::format("layer{}", i), std::make_shared<Layer>(i == 0 ? 4 : 8, 10 * i)));
    if (tied) tied_weight = register_parameter("tied", layers[1]->weight);
  }

  at::Tensor loss(const Batch& batch) const {
    at::Tensor hidden = batch.inputs;
    for (int i = 0; i < static_cast<int>(layers.size()); ++i) {
      if (i == skipped && i > 0) continue;
      hidden = runner(*layers[i], [&] {
        const at::Tensor output = layers[i]->forward(hidden);
        if (on_layer) on_layer(output);
        return output;
      });
    }
    if (tied_weight.defined()) hidden = at::linear(hidden, tied_weight).tanh();
    return (at::linear(hidden, head) - batch.targets).square().mean();  // as mse_loss, on any device
  }
  std::vector<std::string> units() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < layers.size(); ++i) names.push_back(fmt::format("layer{}", i));
    return names;
  }

  at::Tensor head;
  at::Tensor tied_weight;  // undefined, or also that of layer1
  std::vector<std::shared_ptr<Layer>> layers;
  UnitRunner runner;
  int skipped = -1;                                 // a layer that is left out, not the first
  std::function<void(const at::Tensor&)> on_layer;  // with its output
};

}  // namespace rueda
