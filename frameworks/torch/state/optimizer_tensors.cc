// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/state/optimizer_tensors.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <typeinfo>

#include "core/base/error.h"
#include "rueda/torch/optimizers/lars.h"
#include "rueda/torch/optimizers/moments.h"

namespace rueda {
namespace {

using torch::optim::OptimizerParamState;
using Tensors = std::vector<at::Tensor*>;

// Null unless it is exactly this class: a class derived from it may have more tensors.
template <class Known>
Known* as(OptimizerParamState& state) {
  return typeid(state) == typeid(Known) ? static_cast<Known*>(&state) : nullptr;
}

}  // namespace

std::optional<Tensors> tensors_of(OptimizerParamState& state) {
  if (auto* adamw = as<torch::optim::AdamWParamState>(state))
    return Tensors{&adamw->exp_avg(), &adamw->exp_avg_sq(), &adamw->max_exp_avg_sq()};
  if (auto* adam = as<torch::optim::AdamParamState>(state))
    return Tensors{&adam->exp_avg(), &adam->exp_avg_sq(), &adam->max_exp_avg_sq()};
  if (auto* sgd = as<torch::optim::SGDParamState>(state)) return Tensors{&sgd->momentum_buffer()};
  if (auto* moments = as<Moments>(state)) return Tensors{&moments->exp_avg(), &moments->exp_avg_sq()};
  if (auto* lars = as<LarsParamState>(state)) return Tensors{&lars->momentum_buffer()};
  if (auto* rmsprop = as<torch::optim::RMSpropParamState>(state))
    return Tensors{&rmsprop->square_avg(), &rmsprop->momentum_buffer(), &rmsprop->grad_avg()};
  if (auto* adagrad = as<torch::optim::AdagradParamState>(state)) return Tensors{&adagrad->sum()};
  return std::nullopt;
}

std::unique_ptr<OptimizerParamState> copy_of(const OptimizerParamState& state) {
  std::unique_ptr<OptimizerParamState> copy = state.clone();
  const std::optional<Tensors> tensors = tensors_of(*copy);
  RUEDA_ASSERT(tensors);
  for (at::Tensor* const tensor : *tensors) {
    if (tensor->defined()) *tensor = tensor->detach().clone();
  }
  return copy;
}

}  // namespace rueda
