// SPDX-License-Identifier: Apache-2.0
// One collective operation at several sizes, against another library in the same run.
#pragma once

#include <vector>

#include "bench/rueda_bench/subjects/reference.h"
#include "bench/rueda_bench/subjects/subject.h"
#include "bench/rueda_bench/workload/bench_options.h"
#include "bench/rueda_bench/workload/collective.h"

namespace rueda::bench {

// Of one size; each series has a number for each step, in microseconds, of the slowest rank.
struct SweepRow {
  Collective what;
  MemoryKind memory = MemoryKind::ordinary;
  int warmup = 0;  // steps before
  std::vector<double> ours;
  std::vector<double> reference;  // empty: not asked for, or the other side has no such thing
  std::vector<double> limit;      // empty: not asked for
  std::vector<double> measured;   // ours with the squares of the result; empty: not asked for
  double wrong = 0;               // elements, of the rank with most, over all steps
};

// Called by every rank, with the same experiment; `reference` may be null. In alternation, each rank's data
// written anew before each side.
SweepRow measure_row(const Experiment& experiment, Subject& subject, Reference* reference,
                     const Collective& wanted, MemoryKind memory);

}  // namespace rueda::bench
