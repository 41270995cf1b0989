// SPDX-License-Identifier: Apache-2.0
// The kernels that pack tensors of a device into one buffer, against a copy on the device.
#pragma once

#include <string>
#include <vector>

#include "bench/rueda_bench/devices/bench_device.h"
#include "bench/rueda_bench/workload/workload.h"

namespace rueda::bench {

// One way of packing or unpacking; a number for each step.
struct PackRow {
  std::string what;             // "pack float32 as bfloat16"
  std::int64_t bytes = 0;       // read and written
  std::vector<double> seconds;  // of the kernels
  std::vector<double> copied;   // of a copy that reads and writes as many bytes, just before
};

// In alternation. Throws std::runtime_error for a result that is wrong.
std::vector<PackRow> measure_pack(BenchDevice& device, const Workload& workload, int steps, int warmup);

}  // namespace rueda::bench
