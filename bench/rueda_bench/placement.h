// SPDX-License-Identifier: Apache-2.0
// The cores and the load of a benchmark's ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/rueda_bench/subjects/subject.h"

namespace rueda::bench {

struct Placement {
  std::vector<std::int32_t> cores;  // by rank: where its main thread was last
  long cores_of_host = 0;           // of rank 0's
  double load = 0;                  // there, the average of a minute
  bool pinned = false;
};

// Called by every rank.
Placement placement(Subject& subject, bool pinned);

}  // namespace rueda::bench
