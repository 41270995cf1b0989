// SPDX-License-Identifier: Apache-2.0
// LARS: SGD with a learning rate for each parameter.
#pragma once

#include "rueda/torch/optimizers/update_rule.h"

namespace rueda {

// Plain numbers, without units; Lars says what they do.
struct LarsOptions : public torch::optim::OptimizerCloneableOptions<LarsOptions> {
  // lr, momentum (0: none), nesterov and weight_decay are those of torch::optim::SGD.
  LarsOptions(double lr) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  TORCH_ARG(bool, nesterov) = false;
  TORCH_ARG(double, weight_decay) = 1e-4;
  TORCH_ARG(double, trust_coefficient) = 1e-3;  // of the trust ratio
  TORCH_ARG(double, eps) = 1e-9;                // added to what the parameter's norm is divided by
  // Whether groups without weight decay (biases, norms) have the trust ratio, too.
  TORCH_ARG(bool, always_adapt) = false;

 public:
  // What LibTorch's checkpoints and schedulers use.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double lr) override { lr_ = lr; }
};
// Throws c10::Error for options that cannot mean anything.
void check(const LarsOptions& options);

// What Lars keeps of one parameter.
struct LarsParamState : public torch::optim::OptimizerCloneableParamState<LarsParamState> {
  TORCH_ARG(at::Tensor, momentum_buffer);  // of the parameter's shape; undefined before the first step

 public:
  // What LibTorch's checkpoints use.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

// Purpose: for convolutional networks with large batches (You, Gitman, Ginsburg: Large Batch Training of
// Convolutional Networks, 2017). Of a parameter w with gradient g the trust ratio is
// trust_coefficient |w| / (|g| + weight_decay |w| + eps), 1 where |w| or |g| is 0. Momentum is as in
// torch::optim::SGD: v = momentum v + ratio (g + weight_decay w); w -= lr v (the paper puts lr into v, which
// differs while lr changes). Not for a ShardedOptimizer: norms are of whole parameters.
class Lars : public UpdateRule<LarsOptions, LarsParamState> {
 public:
  using UpdateRule::UpdateRule;

 protected:
  void update(at::Tensor& parameter, const at::Tensor& gradient, LarsParamState& state,
              const LarsOptions& options) override;
};

}  // namespace rueda
