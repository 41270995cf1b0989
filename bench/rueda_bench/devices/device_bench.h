// SPDX-License-Identifier: Apache-2.0
// The measurements of --device cuda, and one rank's side of them.
#pragma once

#include <memory>
#include <vector>

#include "bench/rueda_bench/devices/pack.h"
#include "bench/rueda_bench/subjects/reference.h"
#include "bench/rueda_bench/subjects/subject.h"
#include "bench/rueda_bench/workload/bench_options.h"

namespace rueda::bench {

// Purpose: this rank's side on its device, from init() to shutdown(). The main thread's.
class DeviceBench {
 public:
  virtual ~DeviceBench() = default;
  virtual Subject& subject() = 0;
  // The reference that the experiment asks for; null if it asks for none.
  virtual Reference* reference() = 0;
  // Slowest ranks, equal on all.
  virtual std::vector<PackRow> pack(const Experiment& experiment) = 0;
};

// Throws std::runtime_error in a line where there is no device, or no NCCL that it asks for.
std::unique_ptr<DeviceBench> device_bench(const Experiment& experiment);

}  // namespace rueda::bench
