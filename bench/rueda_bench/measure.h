// SPDX-License-Identifier: Apache-2.0
// Steps of allreduces, measured on every rank.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/rueda_bench/subjects/reference.h"
#include "bench/rueda_bench/workload/bench_options.h"

namespace rueda::bench {

// Each series has a number for each step, in microseconds, equal on all ranks.
struct Measured {
  std::vector<double> step;         // from the first submission to the last result, slowest rank
  std::vector<double> negotiation;  // from the last rank's last submission, as its background thread took it,
                                    // to the slowest rank's last Plan
  std::vector<double> call_to_plan;  // the same from the last rank's last call
  std::vector<double> reference;     // of the other side, if asked for
  double plans = 0;                  // of a step
};

// Steps of the experiment's workload, beside `reference` unless it is null. Called by every rank. Throws
// std::runtime_error for a result that is wrong.
Measured measure(const Experiment& experiment, const Allocate& allocate, Reference* reference);

}  // namespace rueda::bench
