// SPDX-License-Identifier: Apache-2.0
// What rueda-sim measures: steps of a model's tensors, and ranks that are lost; or a start, or an elastic
// job.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/sim/elastic/simulated_losses.h"
#include "tests/sim/simulated_network.h"
#include "tests/sim/simulated_start.h"

namespace rueda {

// Times in microseconds.
struct Experiment {
  ClusterShape shape;
  bool start = false;  // of the job, and nothing else
  StartCosts start_costs;
  bool elastic = false;  // an elastic job and its losses, and nothing else
  Losses losses;         // of that; `lost`, `skew` and `seed` are those below
  int tensors = 200;
  int steps = 20;  // after the first
  std::uint32_t seed = 1;
  double skew = 0;  // each rank is ready within so long of the first
  int stragglers = 0;
  double straggler_delay = 1000;
  int lost = 0;  // ranks, in one more step
  double notice =
      100'000;        // within so long the tree neighbours of a lost rank are told, as Transport::lost tells
  std::string trace;  // a file, or empty
  Rank trace_ranks = 16;  // the first ones
  std::string json;
};

// Of the time from the last rank's being ready to each rank's being told the last tensor; or from a loss to
// each survivor's knowing.
struct Percentiles {
  double p50 = 0, p99 = 0, most = 0;
};

struct Result {
  Percentiles first, cached;
  std::uint64_t first_root_bytes = 0, root_bytes = 0, messages = 0, largest_message = 0;  // of one step

  struct Loss {
    Rank rank = 0;
    double after = 0;  // since the first rank was ready
  };
  std::vector<Loss> losses;          // the first comes first
  Percentiles known;                 // from the first loss on
  std::vector<std::string> reasons;  // that survivors give, each once
};

// Throws when a rank is not told everything, or a survivor does not hear of a loss.
Result run(const Experiment& experiment);

}  // namespace rueda
