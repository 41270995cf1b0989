// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/placement.h"

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

}  // namespace rueda::bench
