// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/task.h"

#include <torch/nn/module.h>

namespace rueda::examples {

TaskBatch TaskBatch::to(at::Device device) const {
  TaskBatch moved{.weights = weights};
  for (const auto& [name, tensor] : tensors)
    moved.tensors.emplace_back(name, tensor.to(device, /*non_blocking=*/true));
  return moved;
}

void Task::move_to(at::Device device) { model().to(device); }

}  // namespace rueda::examples
