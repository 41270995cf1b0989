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

void print_placement(const Experiment& experiment, const Placement& placement, const std::string& more) {
  fmt::print("{}: ranks {} cores {} of {}, load {:.2f}; {}microseconds, slowest rank\n", experiment.mode,
             placement.pinned ? "pinned to" : "on", fmt::join(placement.cores, " "), placement.cores_of_host,
             placement.load, more);
}

nlohmann::json to_json(const SweepRow& row, const Experiment& experiment, Rank ranks) {
  const double seconds = median(row.ours) * 1e-6, bytes = static_cast<double>(row.what.bytes);
  nlohmann::json result{{"op", to_string(row.what.operation)},
                        {"dtype", to_string(row.what.dtype)},
                        {"memory", "ordinary"},
                        {"level", experiment.level == Level::stack ? "stack" : "backend"},
                        {"ranks", ranks},
                        {"bytes", row.what.bytes},
                        {"count", row.ours.size()},
                        {"median_us", median(row.ours)},
                        {"min_us", std::ranges::min(row.ours)},
                        {"p99_us", percentile(row.ours, 0.99)},
                        {"algbw_gbs", bytes / seconds * 1e-9},
                        {"busbw_gbs", bytes * row.what.bus_factor(ranks) / seconds * 1e-9},
                        {"wrong", row.wrong}};
  if (!row.reference.empty()) {
    const double theirs = median(row.reference);
    result["against"] = {{"name", "mpi"}, {"median_us", theirs}, {"ratio", theirs / median(row.ours)}};
  }
  return result;
}

}  // namespace

nlohmann::json report(const Experiment& experiment, const std::vector<Measured>& all,
                      const Placement& placement) {
  print_placement(experiment, placement,
                  fmt::format("{} steps after {}; ", experiment.steps, experiment.warmup));
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
  nlohmann::json result{{"mode", experiment.mode},         {"ranks", placement.cores.size()},
                        {"steps", experiment.steps},       {"cores", placement.cores_of_host},
                        {"core_of_rank", placement.cores}, {"load", placement.load}};
  result.update(to_json(all.front()));
  return result;
}

nlohmann::json report(const Experiment& experiment, const std::vector<SweepRow>& rows,
                      const Placement& placement) {
  const auto ranks = static_cast<Rank>(placement.cores.size());
  const std::string level = experiment.level == Level::stack ? "whole stack" : "collective alone";
  print_placement(experiment, placement,
                  fmt::format("{} of {}; ", level, to_string(rows.front().what.dtype)));
  fmt::print("{:>11}{:>7}{:>11}{:>11}{:>11}{:>10}{:>7}{}\n", "bytes", "steps", "median", "min", "p99",
             "bus GB/s", "wrong", experiment.against_mpi ? "        MPI   ratio" : "");
  nlohmann::json all = nlohmann::json::array();
  for (const SweepRow& row : rows) {
    const nlohmann::json numbers = to_json(row, experiment, ranks);
    fmt::print("{:>11}{:>7}{:>11.1f}{:>11.1f}{:>11.1f}{:>10.2f}{:>7.0f}", row.what.bytes, row.ours.size(),
               median(row.ours), std::ranges::min(row.ours), percentile(row.ours, 0.99),
               numbers["busbw_gbs"].get<double>(), row.wrong);
    if (!row.reference.empty())
      fmt::print("{:>11.1f}{:>8.2f}", median(row.reference), median(row.reference) / median(row.ours));
    fmt::print("\n");
    all.push_back(numbers);
  }
  return all;
}

void write_json(const std::string& path, const nlohmann::json& numbers) {
  std::ofstream file(path);
  file << numbers.dump(2) << '\n';
  if (!file.flush()) throw std::runtime_error("--json: cannot write " + path);
}

}  // namespace rueda::bench
