// SPDX-License-Identifier: Apache-2.0
// What every backend of device tensors must do, on any Devices, against the reference of conformance.h.
#pragma once

#include "core/engine/runtime.h"
#include "ops/cuda/device.h"

namespace rueda {

// Each is called on all ranks at the same time, with tensors on `device`, and throws std::runtime_error
// naming the case, the element and both values if a result is wrong.
void check_device_allreduce(Runtime& runtime, Device& device);
void check_device_exchange(Runtime& runtime, Device& device);  // all else that moves data

}  // namespace rueda
