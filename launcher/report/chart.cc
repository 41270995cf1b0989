// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/chart.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/number.h"

namespace rueda::report {
namespace {

using nlohmann::json;

const char* name_of(Scale scale) {
  switch (scale) {
    case Scale::linear: return "linear";
    case Scale::log2: return "log2";
    case Scale::log10: return "log10";
  }
  return "";
}

const char* name_of(Look::Kind kind) {
  switch (kind) {
    case Look::Kind::own: return "own";
    case Look::Kind::published: return "published";
    case Look::Kind::ideal: return "ideal";
  }
  return "";
}

bool can_hold(const ChartAxis& axis, double value) {
  return std::isfinite(value) && (axis.scale == Scale::linear || value > 0);
}

// No screen shows more digits.
double shortened(double value) { return number_from<double>(fmt::format("{:.7g}", value)).value_or(value); }

json points_of(const Chart& chart, const std::vector<ChartPoint>& points) {
  json list = json::array();
  for (const ChartPoint& point : points) {
    if (!can_hold(chart.x, point.x) || !can_hold(chart.y, point.y)) continue;
    json entry{shortened(point.x), shortened(point.y)};
    if (!point.words.empty()) entry.push_back(point.words);
    list.push_back(std::move(entry));
  }
  return list;
}

json axis_as_json(const ChartAxis& axis) {
  json entry{{"title", axis.title}, {"scale", name_of(axis.scale)}};
  if (axis.low) entry["low"] = *axis.low;
  if (axis.high) entry["high"] = *axis.high;
  if (!axis.unit.empty()) entry["unit"] = axis.unit;
  return entry;
}

}  // namespace

json as_json(const Chart& chart) {
  json lines = json::array();
  for (const ChartLine& line : chart.lines) {
    json points = points_of(chart, line.points);
    if (points.empty()) continue;
    json entry{{"name", line.name},
               {"kind", name_of(line.look.kind)},
               {"index", line.look.index},
               {"dots", line.dots},
               {"points", std::move(points)}};
    if (json faint = points_of(chart, line.faint); !faint.empty()) entry["faint"] = std::move(faint);
    lines.push_back(std::move(entry));
  }
  if (lines.empty()) return nullptr;
  json entry{{"title", chart.title},
             {"x", axis_as_json(chart.x)},
             {"y", axis_as_json(chart.y)},
             {"lines", std::move(lines)}};
  if (!chart.note.empty()) entry["note"] = chart.note;
  return entry;
}

}  // namespace rueda::report
