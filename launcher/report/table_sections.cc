// SPDX-License-Identifier: Apache-2.0
// Tables of the runs, of their results and of their time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/report/report_words.h"
#include "launcher/report/sections.h"
#include "launcher/report/table.h"

namespace rueda::report {
namespace {

using nlohmann::json;

std::string or_none(const std::optional<double>& value) { return value ? number_words(*value) : ""; }

// How training went is no result of evaluation.
bool is_training_loss(const std::string& key) { return key == "loss_first" || key == "loss_last"; }

// Keys of all results, in the order of their columns.
std::vector<std::string> result_keys(const Runs& runs) {
  std::vector<std::string> keys;
  for (const RunRecord* run : runs) {
    for (const auto& [key, value] : run->results) {
      if (!is_training_loss(key) && std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  std::ranges::stable_sort(keys, {}, metric_order);
  return keys;
}

// Marks the best of a column if runs differ in it. Values from before training and counts are not marked.
void mark_best(Table& table, std::size_t column, const Runs& runs, const std::string& key) {
  if (key.ends_with("_first") || key == "tokens" || key == "samples") return;
  std::optional<double> best, worst;
  const double sign = higher_is_better(key) ? 1 : -1;
  for (const RunRecord* run : runs) {
    if (const std::optional<double> value = run->result(key)) {
      best = std::max(best.value_or(*value * sign), *value * sign);
      worst = std::min(worst.value_or(*value * sign), *value * sign);
    }
  }
  if (!best || *best == *worst) return;
  for (std::size_t row = 0; row < runs.size(); ++row) {
    const std::optional<double> value = runs[row]->result(key);
    table.rows[row][column].best = value && *value * sign == *best;
  }
}

// Of a step.
struct StepPart {
  const char* key;
  const char* name;
  std::optional<double> RunRecord::*time;
};

constexpr StepPart kParts[] = {{"data", "reading data", &RunRecord::data_ms},
                               {"compute", "computing", &RunRecord::compute_ms},
                               {"wait", "waiting for reduction", &RunRecord::wait_ms}};

double split_sum(const RunRecord& run) {
  double sum = 0;
  for (const StepPart& part : kParts) sum += (run.*part.time).value_or(0);
  return sum;
}

json bar_of(const RunRecord& run, double longest) {
  json parts = json::array();
  std::string words;
  for (const StepPart& part : kParts) {
    const std::optional<double>& time = run.*part.time;
    if (!time) continue;
    parts.push_back({{"key", part.key}, {"share", std::round(*time / longest * 1e5) / 1e5}});
    words += fmt::format("{}{} {}", words.empty() ? "" : " · ", part.key, number_words(*time));
  }
  return {{"name", run.label}, {"parts", std::move(parts)}, {"words", words + " ms"}};
}

std::string schedule_words(const RunRecord& run) {
  return run.passes == 1 ? run.sync : fmt::format("{}, {} passes", run.sync, run.passes);
}

}  // namespace

json overview_section(const Runs& runs) {
  // Programs that only evaluate have results, and no steps.
  if (std::ranges::none_of(runs, [](const RunRecord* run) { return run->steps.has_value(); })) return nullptr;
  const bool hosts_matter = std::ranges::any_of(runs, [](const RunRecord* run) { return run->hosts > 1; });
  Table table{
      .titles = {"Run", "Ranks", "Hosts", "Device", "Synchronisation", "Optimizer", "Steps", "Samples/s",
                 "Step (ms)", "Time", "Loss, first steps", "Loss, last steps", "Stopped by"},
      .lists_runs = true};
  for (const RunRecord* run : runs) {
    table.rows.push_back({{run->label},
                          {fmt::format("{}", run->ranks)},
                          {hosts_matter ? fmt::format("{}", run->hosts) : ""},
                          {run->device},
                          {schedule_words(*run)},
                          {run->optimizer},
                          {run->steps ? fixed_words(static_cast<double>(*run->steps), 0) : ""},
                          {or_none(run->samples_per_s)},
                          {or_none(run->step_ms)},
                          {run->seconds ? duration_words(*run->seconds) : ""},
                          {or_none(run->result("loss_first"))},
                          {or_none(run->result("loss_last"))},
                          {run->stopped}});
  }
  return {{"title", "Runs"}, {"tables", json::array({as_json(table)})}};
}

json results_section(const Runs& runs) {
  const std::vector<std::string> keys = result_keys(runs);
  if (keys.empty()) return nullptr;
  Table table{.titles = {"Run"}};
  for (const std::string& key : keys) table.titles.push_back(metric_words(key));
  for (const RunRecord* run : runs) {
    std::vector<Cell>& row = table.rows.emplace_back(1, Cell{run->label});
    for (const std::string& key : keys) row.push_back({or_none(run->result(key))});
  }
  for (std::size_t column = 0; column < keys.size(); ++column)
    mark_best(table, column + 1, runs, keys[column]);
  return {{"title", "Results"}, {"tables", json::array({as_json(table)})}};
}

json split_section(const Runs& runs) {
  double longest = 0;
  Runs without_data;
  for (const RunRecord* run : runs) {
    longest = std::max(longest, split_sum(*run));
    if (split_sum(*run) > 0 && !run->data_ms) without_data.push_back(run);
  }
  if (longest <= 0) return nullptr;
  json legend = json::array(), rows = json::array();
  for (const StepPart& part : kParts) legend.push_back({{"key", part.key}, {"name", part.name}});
  for (const RunRecord* run : runs) {
    if (split_sum(*run) > 0) rows.push_back(bar_of(*run, longest));
  }
  std::string note = "Milliseconds, medians over steps, means over ranks.";
  if (std::ranges::any_of(runs, [](const RunRecord* run) { return batches_per_sync(*run).value_or(1) > 1; }))
    note += " A wait once in several batches hardly moves a median.";
  if (!without_data.empty())
    note += fmt::format(" Reading data was not measured by itself, and is part of computing, in: {}.",
                        names_of(without_data));
  return {{"title", "Where a step's time goes"},
          {"bars", {{"legend", std::move(legend)}, {"rows", std::move(rows)}}},
          {"notes", json::array({note})}};
}

}  // namespace rueda::report
