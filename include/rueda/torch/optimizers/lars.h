// SPDX-License-Identifier: Apache-2.0
// LARS: SGD with a trust ratio for each parameter.
#pragma once

#include "rueda/torch/optimizers/update_rule.h"

namespace rueda {

// Options of Lars. Numbers have no unit.
struct LarsOptions : public torch::optim::OptimizerCloneableOptions<LarsOptions> {
  // lr, momentum (0: none), nesterov and weight_decay are those of torch::optim::SGD.
  LarsOptions(double lr) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  TORCH_ARG(bool, nesterov) = false;
  TORCH_ARG(double, weight_decay) = 1e-4;
  TORCH_ARG(double, trust_coefficient) = 1e-3;  // factor of the trust ratio
  TORCH_ARG(double, eps) = 1e-9;                // added to the divisor of the parameter's norm
  // Whether groups without weight decay (biases, norms) get the trust ratio, too.
  TORCH_ARG(bool, always_adapt) = false;

 public:
  // LibTorch's checkpoints and schedulers call these.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double lr) override { lr_ = lr; }
};
// Throws c10::Error for options out of range.
void check(const LarsOptions& options);

// The state of Lars for one parameter.
struct LarsParamState : public torch::optim::OptimizerCloneableParamState<LarsParamState> {
  TORCH_ARG(at::Tensor, momentum_buffer);  // of the parameter's shape; undefined before the first step

 public:
  // LibTorch's checkpoints call these.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

// Purpose: LARS, for convolutional networks with large batches (You, Gitman, Ginsburg: Large Batch Training
// of Convolutional Networks, 2017). A parameter w with gradient g has the trust ratio trust_coefficient |w|
// / (|g| + weight_decay |w| + eps). The ratio is 1 if |w| or |g| is 0. Momentum is that of
// torch::optim::SGD: v = momentum v + ratio (g + weight_decay w); w -= lr v. The paper puts lr into v,
// which differs while lr changes. Not for a ShardedOptimizer, since norms need whole parameters.
class Lars : public UpdateRule<LarsOptions, LarsParamState> {
 public:
  using UpdateRule::UpdateRule;

 protected:
  void update(at::Tensor& parameter, const at::Tensor& gradient, LarsParamState& state,
              const LarsOptions& options) override;
};

}  // namespace rueda
