// SPDX-License-Identifier: Apache-2.0
// The parameters of an optimizer.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <vector>

namespace rueda {

// Returns all parameters of an optimizer's groups, in order.
inline std::vector<at::Tensor> parameters_of(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : groups)
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  return parameters;
}

}  // namespace rueda
