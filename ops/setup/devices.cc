// SPDX-License-Identifier: Apache-2.0
#include "ops/setup/devices.h"

#include "ops/cuda/cuda_components.h"
#include "ops/cuda/cuda_devices.h"
#include "ops/nccl/nccl_components.h"

namespace rueda::ops {

void add_devices(RuntimeComponents& components) {
  add_nccl(components, add_cuda(components, std::make_shared<CudaDevices>()));
}

}  // namespace rueda::ops
