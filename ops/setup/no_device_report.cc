// SPDX-License-Identifier: Apache-2.0
// In place of device_report.cc where Rueda is built without CUDA.
#include "ops/setup/device_report.h"

namespace rueda::ops {

bool cuda_built() { return false; }
int nccl_built() { return 0; }

std::vector<std::string> device_report() {
  const std::string why = " (not built: " RUEDA_NO_CUDA ")";
  return {"[ ] CUDA" + why, "[ ] NCCL" + why};
}

}  // namespace rueda::ops
