// SPDX-License-Identifier: Apache-2.0
// Ranks stay on their cores, on every side of a comparison: included by the programs of the peers, too, which
// link nothing of ours.
#pragma once

#include <sched.h>

#include <cstdlib>

namespace rueda::bench {

// The number of this rank that a launcher left in the environment; -1 without one.
inline int rank_from_launcher() {
  for (const char* name : {"RUEDA_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"}) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return -1;
}

// This thread and those that it starts later stay on one core of those that it may use: rank r on the r-th,
// round and round (of all ranks: virtual hosts share the cores of one machine). Says whether they do; without
// a launcher nothing is done.
inline bool pin_to_core() {
  const int rank = rank_from_launcher();
  cpu_set_t usable, one;
  CPU_ZERO(&one);
  if (rank < 0 || sched_getaffinity(0, sizeof usable, &usable) != 0) return false;
  int skip = rank % CPU_COUNT(&usable);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable) && skip-- == 0) CPU_SET(core, &one);
  }
  return sched_setaffinity(0, sizeof one, &one) == 0;
}

}  // namespace rueda::bench
