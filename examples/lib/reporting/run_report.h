// SPDX-License-Identifier: Apache-2.0
// The results of a run besides the checkpoint: the JSON summary, the losses, and the output of rank 0 on the
// way. examples/lib/README.md describes the summary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rueda/metrics.h"

namespace rueda::examples {

using NamedNumbers = std::vector<std::pair<std::string, double>>;

// Some steps of the training together.
struct CurvePoint {
  std::int64_t step = 0;  // how many had been done
  double loss = 0;
  double learning_rate = 0;
  double samples_per_s = 0;
  NamedNumbers parts;  // of the loss
};

// One evaluation, after so many steps.
struct EvaluationPoint {
  std::int64_t step = 0;
  NamedNumbers metrics;
};

// Numbers that do not exist (no steps, no evaluation) become null.
struct RunSummary {
  std::string task;
  std::int64_t ranks = 1;
  std::int64_t hosts = 1;
  std::int64_t steps = 0;  // that have been done
  std::int64_t samples_per_step = 0;
  std::int64_t backward_passes_per_step = 1;
  std::string sync;                                       // as --sync says it
  std::string optimizer;                                  // as --optimizer says it
  std::string device;                                     // "cpu" or "cuda"
  std::optional<std::string> stopped;                     // why before the last step
  std::optional<std::int64_t> resumed_from;               // a step
  std::optional<MetricsSnapshot::Membership> membership;  // of an elastic job
  std::optional<double> loss_first;                       // means over 5 steps and all ranks
  std::optional<double> loss_last;
  std::vector<std::string> metrics;  // their names, the main one first; `loss` stands as loss_held_out
  std::optional<double> samples_per_s;
  std::optional<double> step_ms;
  std::optional<double> data_ms;
  std::optional<double> compute_ms;
  std::optional<double> wait_ms;
  std::optional<double> cpu_ms;
  std::optional<double> reduced_mb;  // bytes that this rank gave to allreduce, in 10^6
  double seconds = 0;                // of training, evaluations and checkpoints included; earlier runs not
  std::string parameters_hash;
  std::vector<CurvePoint> curve;
  std::vector<EvaluationPoint> evaluations;  // in the order of their steps
};

// The mean of the first and of the last five losses, or of as many as there are. Nothing without losses.
std::optional<double> first_mean(const std::vector<double>& losses);
std::optional<double> last_mean(const std::vector<double>& losses);

// Creates the missing parts of a folder's path. Throws std::runtime_error naming the folder and the cause.
void make_folder(const std::filesystem::path& folder);
// Finds out before hours of training whether a file can be written: makes its folder, and opens it. A file
// that was not there is not there afterwards. Throws std::runtime_error naming the path, and why not.
void check_writable(const std::filesystem::path& path);

// The text as JSON can keep it: a file's name need not be UTF-8, and every other byte becomes U+FFFD.
std::string as_utf8(const std::string& text);

// All create the folder. Throw std::runtime_error naming the path.
void write_text(const std::filesystem::path& path, const std::string& text);
void write_report(const std::filesystem::path& path, const nlohmann::ordered_json& report);
void write_summary(const std::filesystem::path& path, const RunSummary& summary);
void write_losses(const std::filesystem::path& path, const std::vector<double>& losses);

}  // namespace rueda::examples
