// SPDX-License-Identifier: Apache-2.0
// The CUDA devices and versions of this machine.
#pragma once

#include <string>

namespace rueda {

// Devices that programs of this Rueda can use; where there are none, `problem` says why in CUDA's words.
struct CudaFound {
  int devices = 0;
  std::string problem;
};
CudaFound find_cuda();

// "13.0 (2 devices, driver for CUDA 13.1)".
std::string cuda_report();

}  // namespace rueda
