// SPDX-License-Identifier: Apache-2.0
// LAMB: Adam with a step for each parameter as long as the parameter allows.
#pragma once

#include <tuple>

#include "rueda/torch/optimizers/moments.h"
#include "rueda/torch/optimizers/update_rule.h"

namespace rueda {

// Plain numbers, without units.
struct LambOptions : public torch::optim::OptimizerCloneableOptions<LambOptions> {
  // lr: the learning rate, times the trust ratio; betas: how much of the averages of gradients and of their
  // squares stays in a step; eps: added to what is divided by; weight_decay: of the parameter, before the
  // trust ratio.
  LambOptions(double lr = 1e-3) : lr_(lr) {}
  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = {0.9, 0.999};
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(double, weight_decay) = 0.01;
  // Whether groups without weight decay (biases, norms) have the trust ratio, too; as in the paper. Training
  // recipes for BERT leave it away there.
  TORCH_ARG(bool, always_adapt) = false;

 public:
  // What LibTorch's checkpoints and schedulers use.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double lr) override { lr_ = lr; }
};
// Throws c10::Error for options that cannot mean anything.
void check(const LambOptions& options);

// Purpose: for batches of many thousands (You and others: Large Batch Optimization for Deep Learning, 2020,
// algorithm 2). The step of a parameter x is AdamW's direction u, times the trust ratio |x| / |u| (1 where
// one of the two is 0). Gradients are not normalised: clip them between synchronize() and step(). Not for a
// ShardedOptimizer: norms are of whole parameters.
class Lamb : public UpdateRule<LambOptions, Moments> {
 public:
  using UpdateRule::UpdateRule;

 protected:
  void update(at::Tensor& parameter, const at::Tensor& gradient, Moments& state,
              const LambOptions& options) override;
};

}  // namespace rueda
