// SPDX-License-Identifier: Apache-2.0
// rueda-bench: how long operations take through the whole stack, and how much of that is agreement:
//   build/bin/ruedarun --no-prefix -np 2 build/bin/rueda-bench latency
#include <fmt/format.h>

#include <boost/program_options.hpp>

#include "core/rueda.h"
#include "ops/init.h"
#include "tests/bench/bench_report.h"
#include "tests/bench/reference.h"

namespace rueda::bench {
namespace {

void run(const Experiment& experiment) {
  init();
  if (experiment.against_mpi) check_reference();
  std::vector<Measured> all;
  for (const Workload& workload : experiment.workloads) all.push_back(measure(experiment, workload));
  const Placement where = placement();
  const bool reports = rank() == 0;
  shutdown();
  if (!reports) return;
  print(experiment, all, where);
  if (!experiment.json.empty()) write_json(experiment, all, where);
}

}  // namespace
}  // namespace rueda::bench

int main(int argc, char** argv) {
  try {
    if (const auto experiment = rueda::bench::read_options(argc, argv)) rueda::bench::run(*experiment);
    return 0;
  } catch (const boost::program_options::error& error) {
    fmt::print(stderr, "error: {}. See rueda-bench --help.\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
