// SPDX-License-Identifier: Apache-2.0
// A BatchCopy as kernels of a device.
#pragma once

#include "ops/cuda/batch_copy.h"
#include "rueda/fence.h"

namespace rueda {

// Gives the current device's stream a kernel for each 128 pieces. Throws BackendError.
void launch_batch_copy(const BatchCopy& copy, DeviceStream stream);

}  // namespace rueda
