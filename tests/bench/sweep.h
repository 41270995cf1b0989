// SPDX-License-Identifier: Apache-2.0
// One collective operation at several sizes, against another library in the same run.
#pragma once

#include <vector>

#include "tests/bench/bench_options.h"
#include "tests/bench/collective.h"
#include "tests/bench/reference.h"
#include "tests/bench/subject.h"

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
