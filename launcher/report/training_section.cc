// SPDX-License-Identifier: Apache-2.0
// Curves of training and of the evaluations during it.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "launcher/report/chart.h"
#include "launcher/report/curves.h"
#include "launcher/report/report_words.h"
#include "launcher/report/sections.h"

namespace rueda::report {
namespace {

using nlohmann::json;

constexpr std::size_t kSmoothedFrom = 60;  // points; shorter curves are drawn as they are
constexpr std::size_t kBoldPoints = 200;
constexpr std::size_t kFaintPoints = 600;

using CurveOf = const MetricCurves RunRecord::*;

// The x axis of a curve.
enum class Over { steps, seconds };

std::vector<ChartPoint> points_of(const std::vector<MetricPoint>& curve, Over over) {
  std::vector<ChartPoint> points;
  for (const MetricPoint& point : curve) {
    if (over == Over::steps) {
      points.push_back({point.step, point.value, {}});
    } else if (point.seconds) {
      points.push_back({*point.seconds, point.value, {}});
    }
  }
  return points;
}

ChartLine line_of(const RunRecord& run, std::size_t index, std::vector<ChartPoint> points) {
  ChartLine line{.name = run.label, .look = {Look::Kind::own, index}};
  if (points.size() >= kSmoothedFrom) {
    line.points = thinned(smoothed(points, points.size() / 40), kBoldPoints);
    line.faint = thinned(points, kFaintPoints);
  } else {
    line.points = std::move(points);
  }
  return line;
}

// Losses that fall by orders of magnitude show their end on a logarithmic axis only.
Scale scale_for(const std::vector<ChartLine>& lines) {
  constexpr double kWide = 300;
  double low = 0, high = 0;
  for (const ChartLine& line : lines) {
    for (const ChartPoint& point : line.points) {
      if (!(point.y > 0)) return Scale::linear;
      low = low == 0 ? point.y : std::min(low, point.y);
      high = std::max(high, point.y);
    }
  }
  return high > low * kWide ? Scale::log10 : Scale::linear;
}

Chart chart_of(const Runs& runs, CurveOf curves, const std::string& key, Over over) {
  Chart chart{.title = metric_words(key), .y = {.title = metric_words(key)}};
  chart.x = over == Over::steps ? ChartAxis{.title = "Steps", .unit = "step"}
                                : ChartAxis{.title = "Seconds of training", .unit = "seconds"};
  bool any_faint = false;
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const auto found = (runs[index]->*curves).find(key);
    if (found == (runs[index]->*curves).end()) continue;
    std::vector<ChartPoint> points = points_of(found->second, over);
    if (points.empty()) continue;
    chart.lines.push_back(line_of(*runs[index], index, std::move(points)));
    any_faint = any_faint || !chart.lines.back().faint.empty();
    chart.lines.back().dots = curves == &RunRecord::evaluations;
  }
  chart.y.scale = scale_for(chart.lines);
  if (chart.y.scale == Scale::log10) chart.y.title += " (logarithmic)";
  if (any_faint) chart.note = "Bold: mean over a twentieth of the run. Faint: as recorded.";
  return chart;
}

std::vector<std::string> keys_of(const Runs& runs, CurveOf curves, std::size_t least_points) {
  std::set<std::string> keys;
  for (const RunRecord* run : runs) {
    for (const auto& [key, points] : run->*curves) {
      if (points.size() >= least_points) keys.insert(key);
    }
  }
  std::vector<std::string> ordered(keys.begin(), keys.end());
  std::ranges::stable_sort(ordered, {}, metric_order);
  return ordered;
}

void append(json& charts, const Chart& chart) {
  if (json entry = as_json(chart); !entry.is_null()) charts.push_back(std::move(entry));
}

// Losses and evaluations; the other curves are `more`.
struct TrainingCharts {
  json charts = json::array();
  json more = json::array();
};

TrainingCharts training_charts(const Runs& runs) {
  TrainingCharts made;
  for (const std::string& key : keys_of(runs, &RunRecord::curve, 1)) {
    Chart chart = chart_of(runs, &RunRecord::curve, key, Over::steps);
    chart.title += " by step";
    append(key.starts_with("loss") ? made.charts : made.more, chart);
    if (key != "loss") continue;
    chart = chart_of(runs, &RunRecord::curve, key, Over::seconds);
    chart.title += " by time";
    append(made.charts, chart);
  }
  for (const std::string& key : keys_of(runs, &RunRecord::evaluations, 2)) {
    Chart chart = chart_of(runs, &RunRecord::evaluations, key, Over::steps);
    chart.title = "Evaluation during training: " + chart.title;
    append(made.charts, chart);
  }
  return made;
}

}  // namespace

std::string names_of(const Runs& runs) {
  std::string names;
  for (const RunRecord* run : runs) names += (names.empty() ? "" : ", ") + run->label;
  return names;
}

json training_section(const Runs& runs) {
  Runs trained, without;
  for (const RunRecord* run : runs) {
    if (run->steps.value_or(0) == 0 && run->curve.empty()) continue;
    trained.push_back(run);
    if (run->curve.empty()) without.push_back(run);
  }
  if (trained.empty()) return nullptr;
  TrainingCharts made = training_charts(runs);
  json section{{"title", "Training"}, {"charts", std::move(made.charts)}, {"notes", json::array()}};
  if (!made.more.empty()) section["more"] = {{"title", "More curves"}, {"charts", std::move(made.more)}};
  if (!without.empty())
    section["notes"].push_back(fmt::format("No curve in the summary of: {}.", names_of(without)));
  return section;
}

}  // namespace rueda::report
