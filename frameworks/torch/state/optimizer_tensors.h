// SPDX-License-Identifier: Apache-2.0
// The fields of the state that an optimizer has of a parameter.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rueda {

// Purpose: the fields of a state by the names under which torch saves them. A plain value.
struct StateFields {
  std::vector<std::pair<std::string, at::Tensor*>>
      tensors;                   // some may be undefined: torch does not save them
  std::int64_t* step = nullptr;  // null: it counts no steps
};
// Returns nothing for a class that Rueda does not know.
std::optional<StateFields> fields_of(torch::optim::OptimizerParamState& state);

// Returns the tensors, some of which may be undefined. Returns nothing for a class that Rueda does not know.
std::optional<std::vector<at::Tensor*>> tensors_of(torch::optim::OptimizerParamState& state);

// Returns a copy with tensors of its own. The class is one that Rueda knows.
std::unique_ptr<torch::optim::OptimizerParamState> copy_of(const torch::optim::OptimizerParamState& state);

}  // namespace rueda
