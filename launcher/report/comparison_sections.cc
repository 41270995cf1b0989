// SPDX-License-Identifier: Apache-2.0
// Scaling and synchronisation: own runs, the published ones, and the ideal.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/report/chart.h"
#include "launcher/report/published.h"
#include "launcher/report/report_words.h"
#include "launcher/report/sections.h"
#include "launcher/report/table.h"

namespace rueda::report {
namespace {

using nlohmann::json;

// Published curves are shown so far at least, however few ranks one's own runs have.
constexpr double kLeastDevices = 8;
constexpr const char* kScalingNote =
    "Hollow dots: published by others. By samples per second, against the run with the fewest ranks. Meant "
    "for "
    "runs of the same model, data and batch: summaries do not tell.";

std::string runs_words(std::size_t runs) { return runs > 1 ? fmt::format(" (mean of {} runs)", runs) : ""; }

std::string ranks_words(const ScalingPoint& point) {
  std::string words = fmt::format("{} rank{}", point.ranks, point.ranks == 1 ? "" : "s");
  if (point.hosts > 1) words += fmt::format(" on {} hosts", point.hosts);
  if (!point.other_sync.empty()) words += " with " + point.other_sync;
  return words + runs_words(point.runs);
}

// The two charts of scaling differ in the measure that they show.
enum class Measure { time, efficiency };

double measured(Measure measure, double time, double devices) {
  return measure == Measure::time ? time * 100 : 100 / (time * devices);
}

std::string measured_words(Measure measure, double time, double devices) {
  return measure == Measure::time ? fmt::format("{}× as fast", number_words(1 / time))
                                  : percent_words(1 / (time * devices));
}

Chart scaling_chart(const std::vector<ScalingSeries>& all, Measure measure) {
  Chart chart{.x = {"Devices, in multiples of the first (logarithmic)", Scale::log2}};
  if (measure == Measure::time) {
    chart.title = "Time for the same work";
    chart.y = {"% of the time of the first (logarithmic)", Scale::log10};
  } else {
    chart.title = "Efficiency";
    chart.y = {.title = "Speed-up per device, %", .low = 0, .high = 100};
  }
  double most = kLeastDevices;
  for (std::size_t index = 0; index < all.size(); ++index) {
    ChartLine line{.name = all[index].name, .look = {Look::Kind::own, index}, .dots = true};
    for (const ScalingPoint& point : all[index].points) {
      most = std::max(most, point.devices);
      line.points.push_back(
          {point.devices, measured(measure, point.time, point.devices),
           fmt::format("{} · {}: {} samples/s", measured_words(measure, point.time, point.devices),
                       ranks_words(point), number_words(point.samples_per_s))});
    }
    chart.lines.push_back(std::move(line));
  }
  for (const PublishedScaling& curve : published_scaling()) {
    ChartLine line{.name = curve.name, .look = {Look::Kind::published, curve.color}, .dots = true};
    for (const PublishedScaling::Point& point : curve.points) {
      if (point.devices > most) continue;
      const double time = point.minutes / curve.points[0].minutes;
      line.points.push_back(
          {point.devices, measured(measure, time, point.devices),
           fmt::format("{} · {} min on {} {}", measured_words(measure, time, point.devices),
                       number_words(point.minutes), number_words(point.devices), curve.unit)});
    }
    chart.lines.push_back(std::move(line));
  }
  ChartLine ideal{.name = "ideal", .look = {Look::Kind::ideal}};
  for (const double devices : {1.0, most})
    ideal.points.push_back({devices, measured(measure, 1 / devices, devices), {}});
  chart.lines.push_back(std::move(ideal));
  return chart;
}

json scaling_table(const std::vector<ScalingSeries>& all) {
  Table table{.titles = {"Schedule", "Ranks", "Hosts", "Runs", "Samples/s", "Speed-up", "Efficiency"}};
  for (const ScalingSeries& series : all) {
    for (const ScalingPoint& point : series.points) {
      const std::string other = point.other_sync.empty() ? "" : " (here: " + point.other_sync + ")";
      table.rows.push_back({{series.name + other},
                            {fmt::format("{}", point.ranks)},
                            {fmt::format("{}", point.hosts)},
                            {fmt::format("{}", point.runs)},
                            {number_words(point.samples_per_s)},
                            {fixed_words(1 / point.time, 2) + "×"},
                            {percent_words(point.efficiency)}});
    }
  }
  return as_json(table);
}

ChartLine sync_line(const SyncSeries& series, std::size_t index, bool time) {
  ChartLine line{.name = series.name, .look = {Look::Kind::own, index}, .dots = true};
  for (const SyncPoint& point : series.points) {
    const std::optional<double> value = time ? point.time : point.quality;
    if (!value) continue;
    std::string words = time ? percent_words(*value) : number_words(*value);
    words += fmt::format(" · every {} batch{}", number_words(point.batches), point.batches == 1 ? "" : "es");
    line.points.push_back({point.batches, time ? *value * 100 : *value, words + runs_words(point.runs)});
  }
  return line;
}

ChartLine published_sync_line(const PublishedSync& curve, bool time) {
  ChartLine line{.name = curve.name, .look = {Look::Kind::published, curve.color}, .dots = true};
  for (const PublishedSync::Point& point : curve.points) {
    const std::string where = fmt::format("every {} batch{}, {}", number_words(point.batches),
                                          point.batches == 1 ? "" : "es", curve.unit);
    if (time && point.minutes > 0) {
      const double share = point.minutes / curve.points[0].minutes;
      line.points.push_back(
          {point.batches, share * 100,
           fmt::format("{} · {}, {} min", percent_words(share), where, number_words(point.minutes))});
    } else if (!time && point.f1 > 0) {
      line.points.push_back({point.batches, point.f1, fmt::format("{} · {}", number_words(point.f1), where)});
    }
  }
  return line;
}

json sync_chart(const std::vector<SyncSeries>& all, const std::string& quality, bool time) {
  Chart chart{.x = {"Batches per synchronisation (logarithmic)", Scale::log10}};
  chart.title = time ? "Time for the same work" : metric_words(quality) + " by synchronisation";
  chart.y.title = time ? "% of the time of the first" : metric_words(quality);
  if (time) {
    chart.y.low = 0;
    chart.y.high = 100;
  }
  for (std::size_t index = 0; index < all.size(); ++index) {
    if (ChartLine line = sync_line(all[index], index, time); !line.points.empty())
      chart.lines.push_back(std::move(line));
  }
  if (chart.lines.empty()) return nullptr;
  if (time || quality == "f1") {
    for (const PublishedSync& curve : published_sync()) {
      if (ChartLine line = published_sync_line(curve, time); !line.points.empty())
        chart.lines.push_back(std::move(line));
    }
  }
  return as_json(chart);
}

json sync_table(const std::vector<SyncSeries>& all, const std::string& quality) {
  const std::string title = quality.empty() ? "" : metric_words(quality);
  Table table{.titles = {"Schedule", "Batches per sync", "Runs", "Samples/s", "Time", title}};
  const auto or_none = [](const std::optional<double>& value) { return value ? number_words(*value) : ""; };
  for (const SyncSeries& series : all) {
    for (const SyncPoint& point : series.points) {
      table.rows.push_back({{series.name},
                            {number_words(point.batches)},
                            {fmt::format("{}", point.runs)},
                            {or_none(point.samples_per_s)},
                            {point.time ? percent_words(*point.time) : ""},
                            {or_none(point.quality)}});
    }
  }
  return as_json(table);
}

}  // namespace

json scaling_section(const Runs& runs) {
  const std::vector<ScalingSeries> all = scaling_of(runs);
  if (all.empty()) return nullptr;
  return {{"title", "Scaling"},
          {"charts", json::array({as_json(scaling_chart(all, Measure::time)),
                                  as_json(scaling_chart(all, Measure::efficiency))})},
          {"tables", json::array({scaling_table(all)})},
          {"notes", json::array({kScalingNote})}};
}

json sync_section(const Runs& runs) {
  const std::vector<SyncSeries> all = sync_of(runs);
  if (all.empty()) return nullptr;
  const std::string quality = quality_key(runs);
  json charts = json::array();
  for (const bool time : {false, true}) {
    if (!time && quality.empty()) continue;
    if (json chart = sync_chart(all, quality, time); !chart.is_null()) charts.push_back(std::move(chart));
  }
  std::string note = "Hollow dots: published by others.";
  Runs others;
  for (const RunRecord* run : runs) {
    if (run->ranks > 1 && !batches_per_sync(*run)) others.push_back(run);
  }
  if (!others.empty())
    note +=
        fmt::format(" Not drawn, for their schedule has no fixed number of batches: {}.", names_of(others));
  return {{"title", "Synchronising less often"},
          {"charts", std::move(charts)},
          {"tables", json::array({sync_table(all, quality)})},
          {"notes", json::array({note})}};
}

json published_section() {
  Table scaling{.titles = {"Published scaling", "Devices", "Minutes", "Speed-up", "Efficiency"}};
  for (const PublishedScaling& curve : published_scaling()) {
    for (const PublishedScaling::Point& point : curve.points) {
      const double speedup = curve.points[0].minutes / point.minutes;
      scaling.rows.push_back({{curve.name},
                              {fmt::format("{} {}", number_words(point.devices), curve.unit)},
                              {number_words(point.minutes)},
                              {fixed_words(speedup, 2) + "×"},
                              {percent_words(speedup / point.devices)}});
    }
  }
  Table sync{.titles = {"Published synchronisation", "Devices", "Batches per sync", "Minutes", "F1 (%)"}};
  for (const PublishedSync& curve : published_sync()) {
    for (const PublishedSync::Point& point : curve.points) {
      sync.rows.push_back({{curve.name},
                           {curve.unit},
                           {number_words(point.batches)},
                           {point.minutes > 0 ? number_words(point.minutes) : ""},
                           {point.f1 > 0 ? number_words(point.f1) : ""}});
    }
  }
  return {
      {"more", {{"title", "Published numbers"}, {"tables", json::array({as_json(scaling), as_json(sync)})}}}};
}

}  // namespace rueda::report
