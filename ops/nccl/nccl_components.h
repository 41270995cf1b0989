// SPDX-License-Identifier: Apache-2.0
// Adds the backends that carry tensors on CUDA devices by NCCL.
#pragma once

#include <memory>

#include "core/engine/runtime_components.h"
#include "ops/cuda/device_sides.h"
#include "ops/nccl/nccl_group.h"

namespace rueda {

// Adds an NcclHierarchyBackend and an NcclBackend for each LinkBackend of `components`, before the backends
// of add_cuda(), which gave `sides`.
void add_nccl(RuntimeComponents& components, const std::shared_ptr<DeviceSides>& sides,
              std::function<const NcclLibrary&()> nccl = nccl_library);

}  // namespace rueda
