// SPDX-License-Identifier: Apache-2.0
// One rank of the conformance suite among processes: conformance allreduce|allgather|...
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>

#include "rueda/rueda.h"
#include "tests/support/conformance/conformance.h"
#include "tests/support/process_watchdog.h"

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void(rueda::Runtime&)>> suites{
      {"allreduce", rueda::check_allreduce},
      {"allgather", rueda::check_allgather},
      {"broadcast", rueda::check_broadcast},
      {"alltoall", rueda::check_alltoall},
      {"reducescatter", rueda::check_reducescatter},
      {"reduce", rueda::check_reduce},
      {"gather", rueda::check_gather},
      {"scatter", rueda::check_scatter},
      {"messages", rueda::check_messages},
      {"adasum", rueda::check_adasum},
      {"barrier", rueda::check_barrier},
      {"strides", rueda::check_strides},
      {"large", rueda::check_large},
      {"mismatches", rueda::check_mismatches},
      {"name_in_flight", rueda::check_name_in_flight}};
  const auto suite = suites.find(argc == 2 ? argv[1] : "");
  if (suite == suites.end()) {
    std::fprintf(stderr, "usage: conformance SUITE\n");
    return 2;
  }
  const rueda::ProcessWatchdog watchdog(std::chrono::seconds(60));
  try {
    rueda::init();
    suite->second(rueda::default_runtime());
    // The same after shutdown and a second init: MPI stays.
    rueda::shutdown();
    rueda::init();
    rueda::check_barrier(rueda::default_runtime());
    rueda::shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
