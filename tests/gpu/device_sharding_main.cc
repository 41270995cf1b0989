// SPDX-License-Identifier: Apache-2.0
// One rank of a job that trains a ShardedModel on its device. It prints the largest difference of a loss
// from that of the whole model on the host: "apart 1e-12". Without a device it ends with CTest's status for
// skipped.
#include <cstdio>
#include <exception>

#include "examples/lib/training/options/compute_device.h"
#include "ops/cuda/cuda_report.h"
#include "rueda/rueda.h"
#include "tests/gpu/device_sharding.h"
#include "tests/support/process_watchdog.h"

int main() {
  constexpr int kSkipped = 77;
  const rueda::CudaFound found = rueda::find_cuda();
  if (found.devices == 0) {
    std::printf("skipped: %s\n", found.problem.c_str());
    return kSkipped;
  }
  const rueda::ProcessWatchdog watchdog(std::chrono::seconds(120));
  try {
    const rueda::examples::DeviceChoice choice{rueda::examples::DeviceChoice::Kind::cuda, {}};
    rueda::examples::prepare_device(choice);
    rueda::init();
    const at::Device device = rueda::examples::agree_on_device(choice);
    const double apart =
        rueda::relative_difference(rueda::train_sharded_and_whole(rueda::default_runtime(), device));
    std::printf("apart %.3g\n", apart);
    rueda::shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
