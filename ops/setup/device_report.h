// SPDX-License-Identifier: Apache-2.0
// The device support that this Rueda was built with, and the devices of this machine.
#pragma once

#include <string>
#include <vector>

namespace rueda::ops {

bool cuda_built();
// As NCCL numbers its versions, 22809 for 2.28.9; 0 without.
int nccl_built();

// "[X] CUDA 13.0 (no driver)", "[ ] NCCL (not built: ...)": a line each. Asks the driver and loads NCCL.
std::vector<std::string> device_report();

}  // namespace rueda::ops
