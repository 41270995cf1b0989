// SPDX-License-Identifier: Apache-2.0
#include "ops/setup/devices.h"

#include "ops/cuda/cuda_devices.h"
#include "ops/cuda/cuda_parts.h"
#include "ops/nccl/nccl_parts.h"

namespace rueda::ops {

void add_devices(RuntimeComponents& parts) {
  add_nccl(parts, add_cuda(parts, std::make_shared<CudaDevices>()));
}

}  // namespace rueda::ops
