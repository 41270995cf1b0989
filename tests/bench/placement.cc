// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/placement.h"

#include <sched.h>
#include <unistd.h>

#include <cstdlib>

namespace rueda::bench {

Placement placement(Subject& subject, bool pinned) {
  Placement result;
  std::vector<double> cores(static_cast<std::size_t>(subject.size()), -1);
  cores[static_cast<std::size_t>(subject.rank())] = sched_getcpu();
  subject.take_largest(cores);
  result.cores.assign(cores.begin(), cores.end());
  result.cores_of_host = sysconf(_SC_NPROCESSORS_ONLN);
  if (getloadavg(&result.load, 1) != 1) result.load = -1;
  result.pinned = pinned;
  return result;
}

void pin_to_core(Rank rank) {
  cpu_set_t usable, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  int skip = rank % CPU_COUNT(&usable);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable) && skip-- == 0) CPU_SET(core, &one);
  }
  sched_setaffinity(0, sizeof one, &one);
}

}  // namespace rueda::bench
