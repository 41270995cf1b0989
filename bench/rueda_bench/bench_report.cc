// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/bench_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "bench/rueda_bench/percentile.h"

namespace rueda::bench {
namespace {

const char* level_in_words(const Experiment& experiment) {
  if (experiment.on_device) return "whole stack on devices";
  return experiment.level == Level::stack ? "whole stack" : "collective alone";
}

std::string in_words(const std::string& reference) {
  std::string words = reference;
  if (words != "nothing")
    std::ranges::transform(words, words.begin(), [](char c) { return std::toupper(c); });
  return words;
}

double negotiation_share(const Measured& measured) {
  return median(measured.negotiation) / median(measured.step);
}

double bus_gigabytes(const Collective& what, Rank ranks, double microseconds) {
  return static_cast<double>(what.bytes) * what.bus_factor(ranks) / microseconds * 1e-3;
}

nlohmann::json to_json(const Measured& measured) {
  nlohmann::json result{{"median_us", median(measured.step)},
                        {"min_us", std::ranges::min(measured.step)},
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

nlohmann::json to_json(const Workload& workload) {
  nlohmann::json result{{"count", workload.tensors.size()}, {"bytes_in_all", workload.bytes()}};
  if (workload.alike()) result["bytes"] = workload.tensors.front().elements * sizeof(float);
  return result;
}

void print_placement(const std::string& what, const Placement& placement, const std::string& more) {
  fmt::print("{}: ranks {} cores {} of {}, load {:.2f}; {}microseconds, slowest rank\n", what,
             placement.pinned ? "pinned to" : "on", fmt::join(placement.cores, " "), placement.cores_of_host,
             placement.load, more);
}

nlohmann::json to_json(const SweepRow& row, const Experiment& experiment, Rank ranks) {
  const double middle = median(row.ours), bytes = static_cast<double>(row.what.bytes);
  nlohmann::json result{{"op", to_string(row.what.operation)},
                        {"dtype", to_string(row.what.dtype)},
                        {"memory", to_string(row.memory)},
                        {"level", experiment.level == Level::stack ? "stack" : "backend"},
                        {"device", experiment.on_device ? "cuda" : "host"},
                        {"ranks", ranks},
                        {"bytes", row.what.bytes},
                        {"count", row.ours.size()},
                        {"warmup", row.warmup},
                        {"median_us", middle},
                        {"min_us", std::ranges::min(row.ours)},
                        {"p99_us", percentile(row.ours, 0.99)},
                        {"algbw_gbs", bytes / middle * 1e-3},
                        {"busbw_gbs", bus_gigabytes(row.what, ranks, middle)},
                        {"wrong", static_cast<std::int64_t>(row.wrong)}};
  if (!row.reference.empty()) {
    const double theirs = median(row.reference);
    result["against"] = {{"name", experiment.beside}, {"median_us", theirs}, {"ratio", theirs / middle}};
  }
  if (!row.limit.empty()) result["limit_us"] = median(row.limit);
  if (!row.measured.empty()) result["measured_us"] = median(row.measured);
  return result;
}

}  // namespace

nlohmann::json report(const Experiment& experiment, const Measured& measured, const Placement& placement) {
  const Workload& workload = *experiment.workload;
  const std::string from = experiment.model.empty() ? "" : " from " + experiment.model;
  const char* memory = to_string(experiment.memories.front());
  print_placement(experiment.mode + from, placement,
                  fmt::format("{} memory; {} steps after {}; ", memory, experiment.steps, experiment.warmup));
  fmt::print("{:>6}{:>13}{:>10}{:>10}{:>13}{:>10}{:>7}{:>14}{:>7}{:>10}{}\n", "count", "bytes in all", "step",
             "p99", "negotiation", "p99", "share", "call to Plan", "Plans", "bus GB/s",
             measured.reference.empty() ? "" : "       MPI   ratio");
  const auto ranks = static_cast<Rank>(placement.cores.size());
  const Collective all{Operation::allreduce, DataType::float32, static_cast<std::size_t>(workload.bytes())};
  const double bus = bus_gigabytes(all, ranks, median(measured.step));
  fmt::print("{:>6}{:>13}{:>10.1f}{:>10.1f}{:>13.1f}{:>10.1f}{:>6.0f}%{:>14.1f}{:>7.1f}{:>10.2f}",
             workload.tensors.size(), workload.bytes(), median(measured.step),
             percentile(measured.step, 0.99), median(measured.negotiation),
             percentile(measured.negotiation, 0.99), 100 * negotiation_share(measured),
             median(measured.call_to_plan), measured.plans, bus);
  if (!measured.reference.empty()) {
    const double mpi = median(measured.reference);
    fmt::print("{:>10.1f}{:>8.2f}", mpi, mpi / median(measured.step));
  }
  fmt::print("\n");
  nlohmann::json result{{"mode", experiment.mode},
                        {"memory", memory},
                        {"ranks", ranks},
                        {"steps", experiment.steps},
                        {"warmup", experiment.warmup},
                        {"cores", placement.cores_of_host},
                        {"core_of_rank", placement.cores},
                        {"pinned", placement.pinned},
                        {"load", placement.load},
                        {"busbw_gbs", bus}};
  if (!experiment.model.empty()) result["from"] = experiment.model;
  result.update(to_json(workload));
  result.update(to_json(measured));
  return result;
}

nlohmann::json report(const Experiment& experiment, const std::vector<SweepRow>& rows,
                      const Placement& placement) {
  const auto ranks = static_cast<Rank>(placement.cores.size());
  print_placement(experiment.mode, placement,
                  fmt::format("{} of {}; ", level_in_words(experiment), to_string(rows.front().what.dtype)));
  fmt::print("{:>11}{:>10}{:>7}{:>11}{:>11}{:>11}{:>10}{:>10}{:>7}{}{}{}{}\n", "bytes", "memory", "steps",
             "median", "min", "p99", "alg GB/s", "bus GB/s", "wrong",
             experiment.measure ? "   measured  times" : "", experiment.limit ? "      limit  share" : "",
             experiment.beside.empty() ? "" : fmt::format("{:>11}   ratio", in_words(experiment.beside)),
             experiment.limit && !experiment.beside.empty() ? "   best" : "");
  nlohmann::json all = nlohmann::json::array();
  for (const SweepRow& row : rows) {
    const nlohmann::json numbers = to_json(row, experiment, ranks);
    fmt::print("{:>11}{:>10}{:>7}{:>11.1f}{:>11.1f}{:>11.1f}{:>10.2f}{:>10.2f}{:>7.0f}", row.what.bytes,
               to_string(row.memory), row.ours.size(), median(row.ours), std::ranges::min(row.ours),
               percentile(row.ours, 0.99), numbers["algbw_gbs"].get<double>(),
               numbers["busbw_gbs"].get<double>(), row.wrong);
    if (!row.measured.empty())
      fmt::print("{:>11.1f}{:>7.2f}", median(row.measured), median(row.measured) / median(row.ours));
    if (!row.limit.empty())
      fmt::print("{:>11.1f}{:>6.0f}%", median(row.limit), 100 * median(row.limit) / median(row.ours));
    if (!row.reference.empty())
      fmt::print("{:>11.1f}{:>8.2f}", median(row.reference), median(row.reference) / median(row.ours));
    if (!row.limit.empty() && !row.reference.empty())
      fmt::print("{:>7.2f}", median(row.reference) / median(row.limit));
    fmt::print("\n");
    all.push_back(numbers);
  }
  return all;
}

nlohmann::json report(const Experiment& experiment, const std::vector<PackRow>& rows,
                      const Placement& placement) {
  const Workload& workload = *experiment.workload;
  print_placement(fmt::format("pack {} tensors, {} bytes", workload.tensors.size(), workload.bytes()),
                  placement, fmt::format("{} steps after {}; ", experiment.steps, experiment.warmup));
  fmt::print("{:<28}{:>13}{:>11}{:>9}{:>11}{:>9}{:>7}\n", "", "bytes moved", "median", "GB/s", "copy", "GB/s",
             "share");
  nlohmann::json all = nlohmann::json::array();
  for (const PackRow& row : rows) {
    const double ours = median(row.seconds), copy = median(row.copied),
                 bytes = static_cast<double>(row.bytes);
    fmt::print("{:<28}{:>13}{:>11.1f}{:>9.1f}{:>11.1f}{:>9.1f}{:>6.0f}%\n", row.what, row.bytes, ours * 1e6,
               bytes / ours * 1e-9, copy * 1e6, bytes / copy * 1e-9, 100 * copy / ours);
    all.push_back({{"what", row.what},
                   {"bytes_moved", row.bytes},
                   {"tensors", workload.tensors.size()},
                   {"count", row.seconds.size()},
                   {"median_us", ours * 1e6},
                   {"copy_median_us", copy * 1e6},
                   {"share", copy / ours}});
  }
  return all;
}

LinePlot plot_of(const Experiment& experiment, const std::vector<SweepRow>& rows,
                 const Placement& placement) {
  const auto ranks = static_cast<Rank>(placement.cores.size());
  auto point = [ranks](const SweepRow& row, const std::vector<double>& series) {
    const double middle = median(series), bus = bus_gigabytes(row.what, ranks, middle);
    return PlotPoint{static_cast<double>(row.what.bytes), bus,
                     fmt::format("{} bytes: {:.1f} µs, {:.3g} GB/s", row.what.bytes, middle, bus)};
  };
  LinePlot plot{fmt::format("{}, {} ranks of one run", experiment.mode, ranks),
                fmt::format("{}, {}; medians of the slowest rank", level_in_words(experiment),
                            to_string(rows.front().what.dtype)),
                "bus bandwidth in GB/s",
                {}};
  PlotLine theirs{in_words(experiment.beside), {}};
  for (MemoryKind memory : experiment.memories) {
    PlotLine ours{fmt::format("Rueda, {} memory", to_string(memory)), {}};
    for (const SweepRow& row : rows) {
      if (row.memory != memory) continue;
      ours.points.push_back(point(row, row.ours));
      if (!row.reference.empty() && memory == experiment.memories.front())
        theirs.points.push_back(point(row, row.reference));
    }
    plot.lines.push_back(std::move(ours));
  }
  if (!theirs.points.empty()) plot.lines.push_back(std::move(theirs));
  return plot;
}

void write_file(const std::string& option, const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error(fmt::format("{}: cannot write {}", option, path));
}

}  // namespace rueda::bench
