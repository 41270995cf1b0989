// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <stdexcept>

#include "bench/rueda_bench/devices/bench_device.h"
#include "ops/cuda/cuda_check.h"
#include "ops/cuda/cuda_devices.h"
#include "ops/cuda/cuda_report.h"

namespace rueda::bench {
namespace {

// Purpose: two events of the device that is current when it is made.
class CudaClock final : public DeviceClock {
 public:
  CudaClock() {
    check(cudaEventCreate(&start_), "cudaEventCreate");
    check(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  CudaClock(const CudaClock&) = delete;
  CudaClock& operator=(const CudaClock&) = delete;
  ~CudaClock() override {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  void start(DeviceStream stream) override {
    check(cudaEventRecord(start_, static_cast<cudaStream_t>(stream)), "cudaEventRecord");
  }
  double stop(DeviceStream stream) override {
    check(cudaEventRecord(stop_, static_cast<cudaStream_t>(stream)), "cudaEventRecord");
    check(cudaEventSynchronize(stop_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

}  // namespace

void check_cuda() {
  const CudaFound found = find_cuda();
  if (found.devices == 0) throw std::runtime_error(fmt::format("--device cuda: {}", found.problem));
}

std::unique_ptr<BenchDevice> cuda_bench_device(Rank local_rank) {
  const int number = local_rank % find_cuda().devices;
  check(cudaSetDevice(number), "cudaSetDevice");
  return std::make_unique<BenchDevice>(std::make_shared<CudaDevices>(), number,
                                       std::make_unique<CudaClock>());
}

}  // namespace rueda::bench
