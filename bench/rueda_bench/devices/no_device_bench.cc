// SPDX-License-Identifier: Apache-2.0
// Of a build without CUDA: nothing is measured on devices.
#include <stdexcept>

#include "bench/rueda_bench/devices/device_bench.h"

namespace rueda::bench {

std::unique_ptr<DeviceBench> device_bench(const Experiment&) {
  throw std::runtime_error("--device cuda: this program was built without CUDA (" RUEDA_NO_CUDA ")");
}

}  // namespace rueda::bench
