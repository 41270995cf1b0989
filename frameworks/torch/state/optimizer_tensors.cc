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

std::optional<StateFields> fields_of(OptimizerParamState& state) {
  const auto of_adam = [](auto& adam) {
    return StateFields{{{"exp_avg", &adam.exp_avg()},
                        {"exp_avg_sq", &adam.exp_avg_sq()},
                        {"max_exp_avg_sq", &adam.max_exp_avg_sq()}},
                       &adam.step()};
  };
  if (auto* adamw = as<torch::optim::AdamWParamState>(state)) return of_adam(*adamw);
  if (auto* adam = as<torch::optim::AdamParamState>(state)) return of_adam(*adam);
  if (auto* sgd = as<torch::optim::SGDParamState>(state))
    return StateFields{{{"momentum_buffer", &sgd->momentum_buffer()}}};
  if (auto* moments = as<Moments>(state))
    return StateFields{{{"exp_avg", &moments->exp_avg()}, {"exp_avg_sq", &moments->exp_avg_sq()}},
                       &moments->step()};
  if (auto* lars = as<LarsParamState>(state))
    return StateFields{{{"momentum_buffer", &lars->momentum_buffer()}}};
  if (auto* rmsprop = as<torch::optim::RMSpropParamState>(state))
    return StateFields{{{"square_avg", &rmsprop->square_avg()},
                        {"momentum_buffer", &rmsprop->momentum_buffer()},
                        {"grad_avg", &rmsprop->grad_avg()}},
                       &rmsprop->step()};
  if (auto* adagrad = as<torch::optim::AdagradParamState>(state))
    return StateFields{{{"sum", &adagrad->sum()}}, &adagrad->step()};
  return std::nullopt;
}

std::optional<Tensors> tensors_of(OptimizerParamState& state) {
  const std::optional<StateFields> fields = fields_of(state);
  if (!fields) return std::nullopt;
  Tensors tensors;
  for (const auto& [name, tensor] : fields->tensors) tensors.push_back(tensor);
  return tensors;
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
