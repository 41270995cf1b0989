// SPDX-License-Identifier: Apache-2.0
// Rectified Adam.
#pragma once

#include <tuple>

#include "rueda/torch/optimizers/moments.h"
#include "rueda/torch/optimizers/update_rule.h"

namespace rueda {

// As of torch.optim.RAdam in Python.
struct RAdamOptions : public torch::optim::OptimizerCloneableOptions<RAdamOptions> {
  // lr: the learning rate; betas: how much of the averages of gradients and of their squares stays in a step;
  // eps: added to what is divided by; weight_decay: of the parameter, in a step.
  RAdamOptions(double lr = 1e-3) : lr_(lr) {}
  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = {0.9, 0.999};
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  // Whether parameters decay by lr * weight_decay (as in AdamW) instead of through the gradient.
  TORCH_ARG(bool, decoupled_weight_decay) = false;

 public:
  // What LibTorch's checkpoints and schedulers use.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double lr) override { lr_ = lr; }
};
// Throws c10::Error for options that cannot mean anything.
void check(const RAdamOptions& options);

// Purpose: Adam that holds back its adaptive step while the variance of that is not yet bounded (Liu and
// others: On the Variance of the Adaptive Learning Rate and Beyond, 2020): trains with large batches and
// delayed synchronisation without a warm-up. Values are those of Python's torch.optim.RAdam but for rounding.
class RAdam : public UpdateRule<RAdamOptions, Moments> {
 public:
  using UpdateRule::UpdateRule;

 protected:
  void update(at::Tensor& parameter, const at::Tensor& gradient, Moments& state,
              const RAdamOptions& options) override;
};

}  // namespace rueda
