// SPDX-License-Identifier: Apache-2.0
// RAdam: rectified Adam.
#pragma once

#include <tuple>

#include "rueda/torch/optimizers/moments.h"
#include "rueda/torch/optimizers/update_rule.h"

namespace rueda {

// Options of RAdam, as of torch.optim.RAdam in Python. Numbers have no unit.
struct RAdamOptions : public torch::optim::OptimizerCloneableOptions<RAdamOptions> {
  // lr: the learning rate. betas: the decay of the averages of gradients and of their squares in each step.
  // eps: added to the divisor. weight_decay: the decay of the parameter in each step.
  RAdamOptions(double lr = 1e-3) : lr_(lr) {}
  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = {0.9, 0.999};
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  // Whether parameters decay by lr * weight_decay (as in AdamW) instead of through the gradient.
  TORCH_ARG(bool, decoupled_weight_decay) = false;

 public:
  // LibTorch's checkpoints and schedulers call these.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double lr) override { lr_ = lr; }
};
// Throws c10::Error for options out of range.
void check(const RAdamOptions& options);

// Purpose: Adam without an adaptive step while the variance of that step is unbounded (Liu and others: On
// the Variance of the Adaptive Learning Rate and Beyond, 2020). It trains with large batches and delayed
// synchronisation without a warm-up. Values are those of torch.optim.RAdam in Python except for rounding.
class RAdam : public UpdateRule<RAdamOptions, Moments> {
 public:
  using UpdateRule::UpdateRule;

 protected:
  void update(at::Tensor& parameter, const at::Tensor& gradient, Moments& state,
              const RAdamOptions& options) override;
};

}  // namespace rueda
