// SPDX-License-Identifier: Apache-2.0
// A small training with all that an elastic::State keeps, for its tests.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/schedulers/step_lr.h>
#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>

#include <map>
#include <memory>
#include <string>

#include "rueda/torch/elastic/state.h"
#include "rueda/torch/optimizers/fused_adamw.h"
#include "rueda/torch/optimizers/lamb.h"
#include "rueda/torch/optimizers/lars.h"
#include "rueda/torch/reducer/distributed_optimizer.h"
#include "rueda/torch/state/stateful.h"

namespace rueda::elastic {

inline auto options_of(const torch::optim::SGD*) { return torch::optim::SGDOptions(0.1).momentum(0.9); }
inline auto options_of(const torch::optim::AdamW*) { return torch::optim::AdamWOptions(0.01).amsgrad(true); }
inline auto options_of(const torch::optim::Adam*) { return torch::optim::AdamOptions(0.01); }
inline auto options_of(const torch::optim::RMSprop*) {
  return torch::optim::RMSpropOptions(0.01).momentum(0.9).centered(true);
}
inline auto options_of(const torch::optim::Adagrad*) { return torch::optim::AdagradOptions(0.01); }
inline auto options_of(const Lamb*) { return LambOptions(0.01); }
inline auto options_of(const Lars*) { return LarsOptions(0.1); }

// All of an optimizer, without the addresses that to_bytes() writes.
inline std::string content_of(const torch::optim::Optimizer& optimizer) {
  std::string content;
  for (const auto& group : optimizer.param_groups()) {
    torch::serialize::OutputArchive options;
    group.options().serialize(options);
    content += to_bytes(options);
    for (const at::Tensor& parameter : group.params()) {
      const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found == optimizer.state().end()) continue;
      torch::serialize::OutputArchive state;
      found->second->serialize(state);
      content += to_bytes(state);
    }
  }
  return content;
}

// Purpose: a model with buffers and dropout, an optimizer, a scheduler, and a State of them.
template <class Opt>
struct Trained {
  explicit Trained(const Scope& scope, const DistributedOptions& distributed = {}, std::uint64_t seed = 0) {
    at::manual_seed(seed);
    model = torch::nn::Sequential(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4), torch::nn::Dropout(0.5),
                                  torch::nn::Linear(4, 1));
    optimizer = std::make_unique<DistributedOptimizer<Opt>>(
        model->parameters(), options_of(static_cast<const Opt*>(nullptr)), distributed, scope);
    scheduler = std::make_unique<torch::optim::StepLR>(*optimizer, 2, 0.5);
    state = std::make_unique<State>(std::vector<std::pair<std::string, Kept>>{{"model", model},
                                                                              {"optimizer", *optimizer},
                                                                              {"scheduler", *scheduler},
                                                                              {"batch", batch},
                                                                              {"log", log},
                                                                              {"table", table}});
  }

  void backward() {
    optimizer->zero_grad();
    model->forward(at::randn({8, 3})).square().mean().backward();
  }

  void step() {
    backward();
    optimizer->step();
    scheduler->step();
    ++batch;
    log += std::to_string(batch) + " ";
    table = at::cat({table, at::full({1}, batch)});
  }

  Trained& train(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      state->commit();
    }
    return *this;
  }

  // All that a commit keeps.
  std::map<std::string, std::string> everything() {
    const at::Tensor generator = at::detail::getDefaultCPUGenerator().get_state();
    return {{"model", to_bytes(Stateful(model))},
            {"optimizer", content_of(*optimizer)},
            {"batch", std::to_string(batch)},
            {"log", log},
            {"table", to_bytes(Stateful(table))},
            {"generator", std::string(static_cast<const char*>(generator.const_data_ptr()),
                                      static_cast<std::size_t>(generator.numel()))}};
  }

  // Which parts of everything() differ from it.
  std::string differing(const std::map<std::string, std::string>& other) {
    std::string names;
    for (const auto& [name, content] : everything()) {
      if (content != other.at(name)) names += name + " ";
    }
    return names;
  }

  torch::nn::Sequential model{nullptr};
  std::unique_ptr<DistributedOptimizer<Opt>> optimizer;
  std::unique_ptr<torch::optim::StepLR> scheduler;
  std::int64_t batch = 0;
  std::string log;
  at::Tensor table = at::zeros({0}, at::kLong);
  std::unique_ptr<State> state;
};

}  // namespace rueda::elastic
