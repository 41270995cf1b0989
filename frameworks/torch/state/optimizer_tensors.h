// SPDX-License-Identifier: Apache-2.0
// The tensors in the state that an optimizer has of a parameter.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <memory>
#include <optional>
#include <vector>

namespace rueda {

// Returns the tensors, some of which may be undefined. Returns nothing for a class that Rueda does not know.
std::optional<std::vector<at::Tensor*>> tensors_of(torch::optim::OptimizerParamState& state);

// Returns a copy with tensors of its own. The class is one that Rueda knows.
std::unique_ptr<torch::optim::OptimizerParamState> copy_of(const torch::optim::OptimizerParamState& state);

}  // namespace rueda
