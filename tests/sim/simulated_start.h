// SPDX-License-Identifier: Apache-2.0
// The start of a whole job on a network with latencies and limits: how long, and how many bytes.
#pragma once

#include <cstdint>

#include "tests/sim/simulated_network.h"

namespace rueda {

struct StartCosts {
  double connect = 150;  // microseconds that a rank is busy with taking a connection
  double gigabits = 10;  // a second, in and out of a host
};

// Times in microseconds from the moment when all processes run and can find rank 0.
struct StartResult {
  double all_heard = 0;           // by rank 0
  double all_told = 0;            // the last rank has the Welcome
  std::uint64_t connections = 0;  // that rank 0 takes
  std::uint64_t root_received = 0, root_sent = 0;
  std::uint64_t list = 0;          // bytes of the Welcome
  std::uint64_t most_relayed = 0;  // bytes that one of the other ranks sends
  std::uint64_t direct = 0;        // bytes that rank 0 would send if it gave every rank the Welcome
};

// Rank 0 is a real Bootstrap, which hears the real introductions of all ranks. Of the others the first rank
// that relays is real; the rest send the same bytes along the same tree, so only their times are computed.
// Throws std::runtime_error where the real ones do not do what the tree says.
StartResult simulate_start(const ClusterShape& shape, const StartCosts& costs);

}  // namespace rueda
