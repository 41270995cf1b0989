// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cuda_report.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace rueda {
namespace {

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

// Of CUDA that its driver can do; 0: there is no driver.
int driver_version() {
  int number = 0;
  return cudaDriverGetVersion(&number) == cudaSuccess ? number : 0;
}

}  // namespace

CudaFound find_cuda() {
  if (driver_version() == 0) return {0, "no driver: libcuda.so.1 is not on this machine"};
  CudaFound found;
  const cudaError_t rc = cudaGetDeviceCount(&found.devices);
  if (rc == cudaSuccess && found.devices > 0) return found;
  cudaGetLastError();
  return {0, fmt::format("no device: {}", rc == cudaSuccess ? "none is visible" : cudaGetErrorString(rc))};
}

std::string cuda_report() {
  const CudaFound found = find_cuda();
  const std::string built = version(CUDART_VERSION);
  if (found.devices == 0) return fmt::format("{} ({})", built, found.problem);
  return fmt::format("{} ({} device{}, driver for CUDA {})", built, found.devices,
                     found.devices == 1 ? "" : "s", version(driver_version()));
}

}  // namespace rueda
