// SPDX-License-Identifier: Apache-2.0
// A rank whose job is one allreduce of 4 bytes: its start and its end are what start.py measures.
#include <cstdio>
#include <exception>
#include <vector>

#include "bench/peers/start_times.h"
#include "rueda/rueda.h"

int main() {
  try {
    rueda::init();
    std::vector<float> value{1};
    rueda::allreduce_async("one", rueda::view(value), rueda::view(value), {rueda::ReduceOp::sum}).wait();
    if (value.front() != static_cast<float>(rueda::size())) return 1;
    rueda::bench::tell_time("first");
    rueda::shutdown();
    rueda::bench::tell_time("end");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
