// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bench_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace rueda::bench {
namespace {

double percentile(std::vector<double> values, double share) {
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + place);
  return values[static_cast<std::size_t>(place)];
}

double median(const std::vector<double>& values) { return percentile(values, 0.5); }

double negotiation_share(const Measured& measured) {
  return median(measured.negotiation) / median(measured.step);
}

nlohmann::json to_json(const Measured& measured) {
  nlohmann::json result{{"count", measured.workload.count},
                        {"bytes", measured.workload.bytes},
                        {"median_us", median(measured.step)},
                        {"p99_us", percentile(measured.step, 0.99)},
                        {"negotiation_us", median(measured.negotiation)},
                        {"negotiation_p99_us", percentile(measured.negotiation, 0.99)},
                        {"negotiation_share", negotiation_share(measured)},
                        {"call_to_plan_us", median(measured.call_to_plan)},
                        {"plans", measured.plans}};
  if (!measured.reference.empty()) {
    result["mpi_median_us"] = median(measured.reference);
    result["mpi_p99_us"] = percentile(measured.reference, 0.99);
    result["ratio"] = median(measured.reference) / median(measured.step);
  }
  return result;
}

}  // namespace

void print(const Experiment& experiment, const std::vector<Measured>& all, const Placement& placement) {
  fmt::print("{}: ranks on cores {} of {}, load {:.2f}; {} steps after {}; microseconds, slowest rank\n",
             experiment.mode, fmt::join(placement.cores, " "), placement.cores_of_host, placement.load,
             experiment.steps, experiment.warmup);
  fmt::print("{:>6}{:>10}{:>10}{:>10}{:>13}{:>10}{:>7}{:>14}{:>7}{}\n", "count", "bytes", "step", "p99",
             "negotiation", "p99", "share", "call to Plan", "Plans",
             experiment.against_mpi ? "       MPI   ratio" : "");
  for (const Measured& measured : all) {
    fmt::print("{:>6}{:>10}{:>10.1f}{:>10.1f}{:>13.1f}{:>10.1f}{:>6.0f}%{:>14.1f}{:>7.1f}",
               measured.workload.count, measured.workload.bytes, median(measured.step),
               percentile(measured.step, 0.99), median(measured.negotiation),
               percentile(measured.negotiation, 0.99), 100 * negotiation_share(measured),
               median(measured.call_to_plan), measured.plans);
    if (!measured.reference.empty()) {
      const double mpi = median(measured.reference);
      fmt::print("{:>10.1f}{:>8.2f}", mpi, mpi / median(measured.step));
    }
    fmt::print("\n");
  }
}

void write_json(const Experiment& experiment, const std::vector<Measured>& all, const Placement& placement) {
  nlohmann::json result{{"mode", experiment.mode},         {"ranks", placement.cores.size()},
                        {"steps", experiment.steps},       {"cores", placement.cores_of_host},
                        {"core_of_rank", placement.cores}, {"load", placement.load}};
  if (experiment.mode == "allreduce") {
    for (const Measured& measured : all) result["sizes"].push_back(to_json(measured));
  } else {
    result.update(to_json(all.front()));
  }
  std::ofstream file(experiment.json);
  file << result.dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + experiment.json);
}

}  // namespace rueda::bench
