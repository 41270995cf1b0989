// SPDX-License-Identifier: Apache-2.0
// Graphs of a real device.
#pragma once

#include "core/engine/runtime.h"
#include "ops/cuda/device.h"

namespace rueda {

// On all ranks at the same time: captures an allreduce, and runs the graph three times. Throws
// std::runtime_error where a result is wrong, and BackendError where NCCL does not connect the ranks.
void check_device_capture(Runtime& runtime, Device& device);

}  // namespace rueda
