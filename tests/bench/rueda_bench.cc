// SPDX-License-Identifier: Apache-2.0
// rueda-bench: how long operations take, and how much of that is agreement:
//   build/bin/ruedarun --no-prefix -np 2 build/bin/rueda-bench allreduce --against mpi
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <fstream>

#include "tests/bench/bench_report.h"
#include "tests/bench/placement.h"
#include "tests/bench/reference.h"

namespace rueda::bench {
namespace {

void run(const Experiment& experiment) {
  if (!experiment.json.empty() && !std::ofstream(experiment.json, std::ios::app))
    throw std::runtime_error("--json: cannot write " + experiment.json);
  const bool alone = experiment.level == Level::backend;
  const std::unique_ptr<Subject> subject = alone ? backend_subject() : stack_subject();
  if (alone) pin_to_core(subject->rank());
  if (experiment.against_mpi) check_reference();
  std::vector<Measured> all;
  for (const Workload& workload : experiment.workloads) all.push_back(measure(experiment, workload));
  std::vector<SweepRow> rows;
  for (const Collective& what : experiment.collectives)
    rows.push_back(measure_row(experiment, *subject, what));
  const Placement where = placement(*subject, alone);
  if (subject->rank() != 0) return;
  const nlohmann::json numbers =
      rows.empty() ? report(experiment, all, where) : report(experiment, rows, where);
  if (!experiment.json.empty()) write_json(experiment.json, numbers);
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
