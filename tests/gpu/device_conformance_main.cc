// SPDX-License-Identifier: Apache-2.0
// One rank of the conformance suite of device tensors, on the machine's own devices, which ranks share where
// they are more. Without a device it says so, and ends with the status that CTest knows as skipped. With the
// argument "devices" it only says how many there are.
#include <cstdio>
#include <exception>
#include <string_view>

#include "ops/cuda/cuda_devices.h"
#include "ops/cuda/cuda_report.h"
#include "rueda/rueda.h"
#include "tests/gpu/device_capture.h"
#include "tests/support/conformance/device_conformance.h"
#include "tests/support/process_watchdog.h"

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  const rueda::CudaFound found = rueda::find_cuda();
  if (found.devices == 0) {
    std::printf("skipped: %s\n", found.problem.c_str());
    return kSkipped;
  }
  if (argc > 1 && std::string_view(argv[1]) == "devices") {
    std::printf("CUDA %s\n", rueda::cuda_report().c_str());
    return 0;
  }
  const rueda::ProcessWatchdog watchdog(std::chrono::seconds(120));
  try {
    rueda::init();
    rueda::CudaDevices devices;
    rueda::Device& device = devices.at(rueda::local_rank() % found.devices);
    rueda::check_device_allreduce(rueda::default_runtime(), device);
    rueda::check_device_exchange(rueda::default_runtime(), device);
    try {
      rueda::check_device_capture(rueda::default_runtime(), device);
    } catch (const rueda::BackendError& error) {
      if (rueda::local_size() <= found.devices) throw;
      std::printf("no graph is captured: %s\n", error.what());  // two ranks have one device
    }
    rueda::shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
