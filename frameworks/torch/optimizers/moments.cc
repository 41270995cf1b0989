// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/optimizers/moments.h"

#include <ATen/ops/zeros_like.h>

#include <cmath>

namespace rueda {

void Moments::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exp_avg);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(exp_avg_sq);
}

void Moments::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(std::int64_t, step);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(at::Tensor, exp_avg);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(at::Tensor, exp_avg_sq);
}

void Moments::take(const at::Tensor& gradient, std::tuple<double, double> betas) {
  if (!exp_avg().defined()) {
    exp_avg(at::zeros_like(gradient, at::MemoryFormat::Preserve));
    exp_avg_sq(at::zeros_like(gradient, at::MemoryFormat::Preserve));
  }
  const auto [beta1, beta2] = betas;
  step(step() + 1);
  exp_avg().lerp_(gradient, 1 - beta1);
  exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
}

double bias_correction(double beta, std::int64_t step) {
  return 1 - std::pow(beta, static_cast<double>(step));
}

void check_rates(double lr, std::tuple<double, double> betas, double eps, double weight_decay) {
  TORCH_CHECK(lr >= 0, "Invalid learning rate: ", lr);
  TORCH_CHECK(eps >= 0, "Invalid epsilon value: ", eps);
  TORCH_CHECK(weight_decay >= 0, "Invalid weight_decay value: ", weight_decay);
  for (const double beta : {std::get<0>(betas), std::get<1>(betas)})
    TORCH_CHECK(beta >= 0 && beta < 1, "Invalid beta parameter: ", beta, "; it must lie in [0, 1)");
}

}  // namespace rueda
