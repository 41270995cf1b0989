// SPDX-License-Identifier: Apache-2.0
#include "ops/setup/device_report.h"

#include "ops/cuda/cuda_report.h"
#include "ops/nccl/nccl_library.h"

namespace rueda::ops {

bool cuda_built() { return true; }
int nccl_built() { return nccl_header_version(); }

std::vector<std::string> device_report() {
  return {"[X] CUDA " + cuda_report(), "[X] NCCL " + nccl_report()};
}

}  // namespace rueda::ops
