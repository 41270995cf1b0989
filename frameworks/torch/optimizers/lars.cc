// SPDX-License-Identifier: Apache-2.0
#include "rueda/torch/optimizers/lars.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>

#include "frameworks/torch/optimizers/norm.h"

namespace rueda {

void LarsOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(nesterov);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(trust_coefficient);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(always_adapt);
}

void LarsOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, momentum);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, nesterov);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, trust_coefficient);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, always_adapt);
}

void LarsParamState::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(momentum_buffer);
}

void LarsParamState::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(at::Tensor, momentum_buffer);
}

void check(const LarsOptions& options) {
  TORCH_CHECK(options.lr() >= 0, "Invalid learning rate: ", options.lr());
  TORCH_CHECK(options.momentum() >= 0, "Invalid momentum value: ", options.momentum());
  TORCH_CHECK(!options.nesterov() || options.momentum() > 0, "Nesterov momentum requires a momentum");
  TORCH_CHECK(options.weight_decay() >= 0, "Invalid weight_decay value: ", options.weight_decay());
  TORCH_CHECK(options.trust_coefficient() > 0,
              "Invalid trust_coefficient value: ", options.trust_coefficient());
  TORCH_CHECK(options.eps() >= 0, "Invalid epsilon value: ", options.eps());
}

void Lars::update(at::Tensor& parameter, const at::Tensor& gradient, LarsParamState& state,
                  const LarsOptions& options) {
  const double decay = options.weight_decay();
  at::Tensor direction = gradient.add(parameter, decay);
  if (decay != 0 || options.always_adapt()) {
    const at::Tensor weights = norm_of(parameter), gradients = norm_of(gradient);
    const at::Tensor trust =
        weights.mul(options.trust_coefficient()).div_(gradients.add(weights, decay).add_(options.eps()));
    const at::Tensor adapts = weights.gt(0).logical_and_(gradients.gt(0));
    direction.mul_(at::where(adapts, trust, at::ones_like(trust)));
  }
  if (options.momentum() != 0) {
    if (!state.momentum_buffer().defined()) {
      state.momentum_buffer(direction.clone());
    } else {
      state.momentum_buffer().mul_(options.momentum()).add_(direction);
    }
    direction = options.nesterov() ? direction.add(state.momentum_buffer(), options.momentum())
                                   : state.momentum_buffer();
  }
  parameter.add_(direction, -options.lr());
}

}  // namespace rueda
