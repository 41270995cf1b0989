// SPDX-License-Identifier: Apache-2.0
// Adds the backends that carry tensors on CUDA devices by way of the host.
#pragma once

#include <memory>

#include "core/engine/runtime_components.h"
#include "ops/cuda/device_sides.h"

namespace rueda {

// Adds, behind all backends of `components`, a DeviceLocalBackend and a StagedBackend over each of them, and
// lets the Runtime know the devices. All ranks do, also where there is no device.
std::shared_ptr<DeviceSides> add_cuda(RuntimeComponents& components, std::shared_ptr<Devices> devices);

}  // namespace rueda
