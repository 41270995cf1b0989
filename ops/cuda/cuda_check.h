// SPDX-License-Identifier: Apache-2.0
// Turns the error code of a CUDA call into a BackendError.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/base/error.h"

namespace rueda {

// Throws BackendError naming the call and CUDA's own words unless `rc` is cudaSuccess.
inline void check(cudaError_t rc, const char* call) {
  if (rc == cudaSuccess) return;
  cudaGetLastError();  // said here, so not again by the next call
  throw BackendError(Status::backend_error(std::string(call) + " failed: " + cudaGetErrorString(rc)));
}

}  // namespace rueda
