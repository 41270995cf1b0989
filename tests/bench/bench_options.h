// SPDX-License-Identifier: Apache-2.0
// What the command line of rueda-bench asks for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tests/bench/collective.h"

namespace rueda::bench {

// Tensors of float32 that are submitted together.
struct Workload {
  std::int64_t count = 1;
  std::int64_t bytes = 4;  // of each
};

enum class Level { stack, backend };

// A plain value.
struct Experiment {
  std::string mode;
  std::vector<Workload> workloads;      // latency, tensors
  std::vector<Collective> collectives;  // the other modes
  Level level = Level::stack;
  int steps = 1000;
  int warmup = 100;  // steps that are not measured
  bool against_mpi = false;
  std::string json;
};

// Nothing when the command line has been answered already. Throws boost::program_options::error.
std::optional<Experiment> read_options(int argc, char** argv);

}  // namespace rueda::bench
