// SPDX-License-Identifier: Apache-2.0
// Curves of training and of the evaluations during it.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "examples/04_report/chart.h"
#include "examples/04_report/curves.h"
#include "examples/04_report/html_text.h"
#include "examples/04_report/sections.h"

namespace rueda::examples::report {
namespace {

constexpr std::size_t kSmoothedFrom = 60;  // points; shorter curves are drawn as they are
constexpr std::size_t kBoldPoints = 200;
constexpr std::size_t kFaintPoints = 600;

using CurveOf = const MetricCurves RunRecord::*;

// The x axis of a curve, and the unit in the pointer's text.
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

ChartLine line_of(const RunRecord& run, std::size_t index, std::vector<ChartPoint> points, Over over) {
  ChartLine line{.name = run.label, .look = {Look::Kind::own, index}};
  if (points.size() >= kSmoothedFrom) {
    line.points = thinned(smoothed(points, points.size() / 40), kBoldPoints);
    line.faint = thinned(points, kFaintPoints);
  } else {
    line.points = std::move(points);
  }
  for (ChartPoint& point : line.points) {
    point.words =
        fmt::format("{} · {}", number_words(point.y),
                    over == Over::steps ? "step " + fixed_words(point.x, 0) : duration_words(point.x));
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
  Chart chart{.title = metric_words(key), .x_title = over == Over::steps ? "Steps" : "Seconds of training"};
  chart.y_title = metric_words(key);
  bool any_faint = false;
  for (std::size_t index = 0; index < runs.size(); ++index) {
    const auto found = (runs[index]->*curves).find(key);
    if (found == (runs[index]->*curves).end()) continue;
    std::vector<ChartPoint> points = points_of(found->second, over);
    if (points.empty()) continue;
    chart.lines.push_back(line_of(*runs[index], index, std::move(points), over));
    any_faint = any_faint || !chart.lines.back().faint.empty();
    chart.lines.back().dots = curves == &RunRecord::evaluations;
  }
  chart.y_scale = scale_for(chart.lines);
  if (chart.y_scale == Scale::log10) chart.y_title += " (logarithmic)";
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

std::string curve_charts(const Runs& runs) {
  std::string losses, more;
  for (const std::string& key : keys_of(runs, &RunRecord::curve, 1)) {
    const bool is_loss = key.starts_with("loss");
    Chart chart = chart_of(runs, &RunRecord::curve, key, Over::steps);
    chart.title += " by step";
    (is_loss ? losses : more) += chart_html(chart);
    if (key != "loss") continue;
    chart = chart_of(runs, &RunRecord::curve, key, Over::seconds);
    chart.title += " by time";
    losses += chart_html(chart);
  }
  std::string html;
  if (!losses.empty()) html += "<div class=\"charts\">\n" + losses + "</div>\n";
  if (!more.empty())
    html += "<details><summary>More curves</summary>\n<div class=\"charts\">\n" + more + "</div></details>\n";
  return html;
}

std::string evaluation_charts(const Runs& runs) {
  std::string html;
  for (const std::string& key : keys_of(runs, &RunRecord::evaluations, 2)) {
    Chart chart = chart_of(runs, &RunRecord::evaluations, key, Over::steps);
    chart.title = "Evaluation during training: " + chart.title;
    html += chart_html(chart);
  }
  return html.empty() ? html : "<div class=\"charts\">\n" + html + "</div>\n";
}

}  // namespace

std::string names_of(const Runs& runs) {
  std::string names;
  for (const RunRecord* run : runs) names += (names.empty() ? "" : ", ") + run->label;
  return names;
}

std::string training_section(const Runs& runs) {
  Runs trained, without;
  for (const RunRecord* run : runs) {
    if (run->steps.value_or(0) == 0 && run->curve.empty()) continue;
    trained.push_back(run);
    if (run->curve.empty()) without.push_back(run);
  }
  if (trained.empty()) return {};
  std::string html = "<section>\n<h3>Training</h3>\n" + curve_charts(runs) + evaluation_charts(runs);
  if (!without.empty())
    html +=
        fmt::format("<p class=\"note\">No curve in the summary of: {}.</p>\n", escaped(names_of(without)));
  return html + "</section>\n";
}

}  // namespace rueda::examples::report
