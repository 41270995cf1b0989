// SPDX-License-Identifier: Apache-2.0
// LAMB: Adam with a trust ratio for each parameter.
#pragma once

#include <tuple>

#include "rueda/torch/optimizers/moments.h"
#include "rueda/torch/optimizers/update_rule.h"

namespace rueda {

// Options of Lamb. Numbers have no unit.
struct LambOptions : public torch::optim::OptimizerCloneableOptions<LambOptions> {
  // lr: the learning rate, which the trust ratio multiplies. betas: the decay of the averages of gradients
  // and of their squares in each step. eps: added to the divisor. weight_decay: added to the direction
  // before the trust ratio, as a multiple of the parameter.
  LambOptions(double lr = 1e-3) : lr_(lr) {}
  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = {0.9, 0.999};
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(double, weight_decay) = 0.01;
  // Whether groups without weight decay (biases, norms) get the trust ratio, too, as in the paper. Training
  // recipes for BERT leave it out there.
  TORCH_ARG(bool, always_adapt) = false;

 public:
  // LibTorch's checkpoints and schedulers call these.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override { return lr(); }
  void set_lr(double lr) override { lr_ = lr; }
};
// Throws c10::Error for options out of range.
void check(const LambOptions& options);

// Purpose: LAMB, for batches of many thousands of samples (You and others: Large Batch Optimization for
// Deep Learning, 2020, algorithm 2). The step of a parameter x is the direction u of AdamW times the trust
// ratio |x| / |u|. The ratio is 1 if one of the norms is 0. Gradients are not normalised: clip them between
// synchronize() and step(). Not for a ShardedOptimizer, since norms need whole parameters.
class Lamb : public UpdateRule<LambOptions, Moments> {
 public:
  using UpdateRule::UpdateRule;

 protected:
  void update(at::Tensor& parameter, const at::Tensor& gradient, Moments& state,
              const LambOptions& options) override;
};

}  // namespace rueda
