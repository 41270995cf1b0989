// SPDX-License-Identifier: Apache-2.0
// The checked contents of a trainer's summary.json, under the label that the page shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace rueda::report {

// A measure at a step, and, if the summary tells, after how many seconds of training.
struct MetricPoint {
  double step = 0;
  std::optional<double> seconds;
  double value = 0;
};

// Measures by their key in the summary, each in the order of steps.
using MetricCurves = std::map<std::string, std::vector<MetricPoint>>;

// One summary. Absent values are empty: older programs wrote no curve and no time of reading data.
struct RunRecord {
  std::string label;
  std::filesystem::path path;
  std::string task;
  std::int64_t ranks = 1;
  std::int64_t hosts = 1;
  std::string sync;
  std::string optimizer;
  std::string device;   // on which it computed
  std::string stopped;  // the reason for a stop before the last step
  std::optional<std::int64_t> steps;
  std::int64_t passes = 1;  // batches accumulated before one reduction
  std::optional<double> seconds;
  std::optional<double> samples_per_s;  // of all ranks together
  std::optional<double> step_ms;
  std::optional<double> data_ms;
  std::optional<double> compute_ms;
  std::optional<double> wait_ms;
  std::vector<std::pair<std::string, double>> results;  // every other number: f1, loss_last, perplexity, ...
  MetricCurves curve;
  MetricCurves evaluations;

  std::optional<double> result(const std::string& key) const;
};

// A record of parsed JSON. Throws std::runtime_error, one line that names file, key and remedy.
RunRecord record_of(const nlohmann::json& summary, const std::filesystem::path& path);

// The same from a file. Throws also for a file that cannot be read or is no JSON.
RunRecord read_record(const std::filesystem::path& path);

// Gives every record its label: the names in order, or, without names, the folder of the file (its stem if it
// is not called summary.json), with as much of the path as tells it from the others.
void name_records(std::vector<RunRecord>& records, const std::vector<std::string>& names);

}  // namespace rueda::report
