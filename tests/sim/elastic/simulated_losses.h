// SPDX-License-Identifier: Apache-2.0
// An elastic job that loses ranks, on a network with latencies and limits: how long until the others go on,
// and how many messages and bytes that takes.
#pragma once

#include <cstdint>

#include "tests/sim/elastic/simulated_supervisor.h"
#include "tests/sim/elastic/simulated_workers.h"
#include "tests/sim/simulated_start.h"

namespace rueda {

// What happens to the job. Times in microseconds.
struct Losses {
  int ranks = 0;      // that are lost alone
  int hosts = 0;      // that are lost with all their ranks
  bool root = false;  // rank 0 is among them
  int joins = 0;      // workers that come
  double within = 0;  // all that happens within so long of the first
  WorkerHabits habits;
  double message = 5;  // that ruedarun or an agent is busy with a message
};

// Times in microseconds since the first loss, or the first worker that comes.
struct LossesResult {
  std::uint64_t generations = 0;  // made since
  double all_broken = 0;          // the last rank has heard that its generation is over
  double decided = 0;             // ruedarun has made the last generation
  double all_in = 0;              // all survivors, and all that have come, are in it
  Rank ranks = 0;                 // of it
  Traffic supervisor_received, supervisor_sent;
  Traffic root_received, root_sent;  // by ranks 0 in starts: from other ranks, and to them
  std::uint64_t text = 0;            // bytes of the longest list of workers, as a rank gets it
  double seconds_of_membership = 0;  // of the real clock
};

// The real Membership decides, and real messages go between ruedarun and the agents. The starts are those of
// SimulatedStart. Throws std::runtime_error where a survivor does not come into the last generation.
LossesResult simulate_losses(const ClusterShape& shape, const StartCosts& start, const Losses& losses);

}  // namespace rueda
