// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/optimizers/radam.h"

#include <cmath>

namespace rueda {

void RAdamOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(betas);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(decoupled_weight_decay);
}

void RAdamOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(Betas, betas);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, decoupled_weight_decay);
}

void check(const RAdamOptions& options) {
  check_rates(options.lr(), options.betas(), options.eps(), options.weight_decay());
}

namespace {

// The factor of the adaptive step; 0: too few steps to tell the variance, take the average alone.
double rectification(double beta2, std::int64_t step) {
  const double correction = bias_correction(beta2, step);
  const double longest = 2 / (1 - beta2) - 1;  // length of the average, in the end and now
  const double length = longest - 2 * static_cast<double>(step) * (1 - correction) / correction;
  if (length <= 5) return 0;
  return std::sqrt((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length));
}

}  // namespace

void RAdam::update(at::Tensor& parameter, const at::Tensor& gradient, Moments& state,
                   const RAdamOptions& options) {
  at::Tensor direction = gradient;
  if (options.weight_decay() != 0) {
    if (options.decoupled_weight_decay()) {
      parameter.mul_(1 - options.lr() * options.weight_decay());
    } else {
      direction = gradient.add(parameter, options.weight_decay());
    }
  }
  state.take(direction, options.betas());
  const auto [beta1, beta2] = options.betas();
  const double size = options.lr() / bias_correction(beta1, state.step());
  const double held_back = rectification(beta2, state.step());
  if (held_back == 0) {
    parameter.add_(state.exp_avg(), -size);
    return;
  }
  const double scale = std::sqrt(bias_correction(beta2, state.step())) * held_back;
  parameter.addcdiv_(state.exp_avg(), state.exp_avg_sq().sqrt().add_(options.eps()), -size * scale);
}

}  // namespace rueda
