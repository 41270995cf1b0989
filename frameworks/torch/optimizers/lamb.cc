// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/optimizers/lamb.h"

#include "frameworks/torch/optimizers/norm.h"

namespace rueda {

void LambOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(always_adapt);
}

void LambOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Betas, betas);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, always_adapt);
}

void check(const LambOptions& options) {
  check_rates(options.lr(), options.betas(), options.eps(), options.weight_decay());
}

void Lamb::update(at::Tensor& parameter, const at::Tensor& gradient, Moments& state,
                  const LambOptions& options) {
  state.take(gradient, options.betas());
  const auto [beta1, beta2] = options.betas();
  at::Tensor direction = state.exp_avg_sq().div(bias_correction(beta2, state.step())).sqrt_();
  direction.add_(options.eps()).reciprocal_().mul_(state.exp_avg());
  direction.div_(bias_correction(beta1, state.step()));
  if (options.weight_decay() != 0) {
    direction.add_(parameter, options.weight_decay());
  } else if (!options.always_adapt()) {
    parameter.add_(direction, -options.lr());
    return;
  }
  const at::Tensor trust = ratio_or_one(norm_of(parameter), norm_of(direction));
  parameter.addcmul_(direction, trust.to(parameter.scalar_type()), -options.lr());
}

}  // namespace rueda
