// SPDX-License-Identifier: Apache-2.0
// The common part of optimizers that update one parameter after the other.
#pragma once

#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>

#include <memory>
#include <utility>
#include <vector>

namespace rueda {

// Purpose: a torch optimizer whose subclass only updates one parameter. `Options` is an
// OptimizerCloneableOptions. `State` is an OptimizerCloneableParamState, one for each parameter. Both are
// saved and loaded as in LibTorch's optimizers. Works on any device. Used by one thread.
template <class Options, class State>
class UpdateRule : public torch::optim::Optimizer {
 public:
  // Throws c10::Error for options out of range.
  UpdateRule(std::vector<torch::optim::OptimizerParamGroup> groups, Options defaults)
      : Optimizer(std::move(groups), std::make_unique<Options>(checked(std::move(defaults)))) {}
  UpdateRule(std::vector<at::Tensor> parameters, Options defaults)
      : UpdateRule(std::vector{torch::optim::OptimizerParamGroup(std::move(parameters))},
                   std::move(defaults)) {}

  // Runs `closure` once with gradients enabled, then updates each parameter that has a gradient. Returns
  // the loss. Throws c10::Error for sparse gradients.
  at::Tensor step(LossClosure closure = nullptr) override {
    at::Tensor loss;
    if (closure) {
      const at::AutoGradMode gradients_on(true);
      loss = closure();
    }
    const at::NoGradGuard no_grad;
    for (torch::optim::OptimizerParamGroup& group : param_groups()) {
      const auto& options = static_cast<const Options&>(group.options());
      for (at::Tensor& parameter : group.params()) {
        const at::Tensor& gradient = parameter.grad();
        if (!gradient.defined()) continue;
        TORCH_CHECK(!gradient.is_sparse(), "this optimizer does not support sparse gradients");
        update(parameter, gradient, state_of(parameter), options);
      }
    }
    return loss;
  }

  // torch::save and torch::load call these.
  void save(torch::serialize::OutputArchive& archive) const override {
    torch::optim::serialize<State, Options>(archive, *this);
  }
  void load(torch::serialize::InputArchive& archive) override {
    torch::optim::serialize<State, Options>(archive, static_cast<torch::optim::Optimizer&>(*this));
  }

 protected:
  // Updates one parameter. It does not change `gradient`. `state` is new in the first step of its
  // parameter.
  virtual void update(at::Tensor& parameter, const at::Tensor& gradient, State& state,
                      const Options& options) = 0;

 private:
  // Calls check() of the options' namespace, which throws c10::Error for values out of range.
  static Options checked(Options options) {
    check(options);
    return options;
  }

  State& state_of(const at::Tensor& parameter) {
    auto& slot = state()[parameter.unsafeGetTensorImpl()];
    if (!slot) slot = std::make_unique<State>();
    return static_cast<State&>(*slot);
  }
};

}  // namespace rueda
