// SPDX-License-Identifier: Apache-2.0
#include "examples/04_report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "examples/04_report/html_text.h"

namespace rueda::examples::report {
namespace {

// The sides of the viewBox: integers in paths are short, and a thousandth of a plot is less than a pixel.
constexpr double kSide = 1000;
constexpr std::size_t kColors = 7;
constexpr std::size_t kDashes = 4;
constexpr std::size_t kPublishedColors = 4;

bool can_hold(const Chart& chart, const ChartPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) &&
         (chart.x_scale == Scale::linear || point.x > 0) && (chart.y_scale == Scale::linear || point.y > 0);
}

Chart drawable(Chart chart) {
  const auto left_out = [&](const ChartPoint& point) { return !can_hold(chart, point); };
  for (ChartLine& line : chart.lines) {
    std::erase_if(line.points, left_out);
    std::erase_if(line.faint, left_out);
  }
  std::erase_if(chart.lines, [](const ChartLine& line) { return line.points.empty(); });
  return chart;
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Both axes of a chart that has points.
struct Axes {
  Axis x;
  Axis y;
};

Axes axes_of(const Chart& chart) {
  Range x, y;
  for (const ChartLine& line : chart.lines) {
    for (const auto* points : {&line.points, &line.faint}) {
      for (const ChartPoint& point : *points) {
        x.add(point.x);
        y.add(point.y);
      }
    }
  }
  if (chart.y_low) y.add(*chart.y_low);
  if (chart.y_high) y.add(*chart.y_high);
  return {Axis(chart.x_scale, x.low, x.high), Axis(chart.y_scale, y.low, y.high)};
}

std::string coordinates(const Axes& axes, const ChartPoint& point) {
  return fmt::format("{:.0f} {:.0f}", axes.x.fraction(point.x) * kSide,
                     (1 - axes.y.fraction(point.y)) * kSide);
}

std::string path_html(const Axes& axes, const std::vector<ChartPoint>& points, const char* css_class) {
  std::string path;
  for (const ChartPoint& point : points) path += (path.empty() ? "M" : "L") + coordinates(axes, point);
  return fmt::format("<path class=\"{}\" d=\"{}\"/>", css_class, path);
}

// Lines without length and with round ends: circles, however the plot is stretched.
std::string dots_html(const Axes& axes, const ChartLine& line) {
  std::string path;
  for (const ChartPoint& point : line.points) path += "M" + coordinates(axes, point) + "h0";
  std::string html = fmt::format("<path class=\"dots\" d=\"{}\"/>", path);
  if (line.look.kind == Look::Kind::published) html += fmt::format("<path class=\"holes\" d=\"{}\"/>", path);
  return html;
}

std::string line_html(const Axes& axes, const ChartLine& line) {
  std::string html = fmt::format("<g class=\"{}\" data-curve>", line.look.css_class());
  if (!line.faint.empty()) html += path_html(axes, line.faint, "faint");
  if (line.points.size() > 1) html += path_html(axes, line.points, "line");
  if (line.dots || line.points.size() == 1) html += dots_html(axes, line);
  return html + "</g>\n";
}

std::string grid_html(const Axes& axes) {
  std::string path;
  for (const Tick& tick : axes.y.ticks()) path += fmt::format("M0 {:.0f}H1000", (1 - tick.fraction) * kSide);
  for (const Tick& tick : axes.x.ticks()) path += fmt::format("M{:.0f} 0V1000", tick.fraction * kSide);
  return fmt::format("<path class=\"grid\" d=\"{}\"/>\n", path);
}

std::string ticks_html(const Axis& axis, const char* css_class, const char* side) {
  std::string html = fmt::format("<div class=\"{}\" aria-hidden=\"true\">", css_class);
  for (const Tick& tick : axis.ticks()) {
    html +=
        fmt::format("<span style=\"{}:{:.2f}%\">{}</span>", side, tick.fraction * 100, escaped(tick.label));
  }
  return html + "</div>\n";
}

std::string legend_html(const Chart& chart) {
  std::string html = "<ul class=\"legend\">";
  for (const ChartLine& line : chart.lines) {
    html += fmt::format(
        "<li class=\"{}\"><svg class=\"key\" viewBox=\"0 0 26 10\" aria-hidden=\"true\">"
        "<path class=\"line\" d=\"M1 5H25\"/>{}</svg>{}</li>",
        line.look.css_class(),
        line.look.kind == Look::Kind::published
            ? "<path class=\"dots\" d=\"M13 5h0\"/><path class=\"holes\" d=\"M13 5h0\"/>"
            : "",
        escaped(line.name));
  }
  return html + "</ul>\n";
}

// The data of the script: per line its name, look, and points [x, y, words] with x and y as shares of the
// plot.
std::string values_json(const Chart& chart, const Axes& axes) {
  const auto rounded = [](double share) { return std::round(share * 1e4) / 1e4; };
  nlohmann::json lines = nlohmann::json::array();
  for (const ChartLine& line : chart.lines) {
    if (line.look.kind == Look::Kind::ideal) continue;
    nlohmann::json points = nlohmann::json::array();
    for (const ChartPoint& point : line.points) {
      points.push_back({rounded(axes.x.fraction(point.x)), rounded(axes.y.fraction(point.y)), point.words});
    }
    lines.push_back({{"name", line.name}, {"look", line.look.css_class()}, {"points", std::move(points)}});
  }
  // Names come from paths too, which may be of any bytes.
  return lines.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string Look::css_class() const {
  switch (kind) {
    case Kind::own: return fmt::format("own c{} d{}", index % kColors, index / kColors % kDashes);
    case Kind::published: return fmt::format("published p{}", index % kPublishedColors);
    case Kind::ideal: return "ideal";
  }
  return {};
}

std::string chart_html(const Chart& given) {
  const Chart chart = drawable(given);
  if (chart.lines.empty()) return {};
  const Axes axes = axes_of(chart);
  std::string html = fmt::format("<figure class=\"chart\">\n<figcaption>{}</figcaption>\n{}",
                                 escaped(chart.title), legend_html(chart));
  html += fmt::format("<div class=\"y-title\">{}</div>\n<div class=\"plot\">\n", escaped(chart.y_title));
  html += ticks_html(axes.y, "y-ticks", "bottom");
  html += fmt::format(
      "<div class=\"area\" tabindex=\"0\" data-lines=\"{}\">\n"
      "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\n",
      escaped(values_json(chart, axes)),
      escaped(chart.title + ": " + chart.y_title + " by " + chart.x_title));
  html += grid_html(axes);
  // Own lines last, so that they lie over the published ones.
  for (const bool own : {false, true}) {
    for (const ChartLine& line : chart.lines) {
      if ((line.look.kind == Look::Kind::own) == own) html += line_html(axes, line);
    }
  }
  html += "</svg>\n</div>\n" + ticks_html(axes.x, "x-ticks", "left");
  html += fmt::format("</div>\n<div class=\"x-title\">{}</div>\n", escaped(chart.x_title));
  if (!chart.note.empty()) html += fmt::format("<p class=\"note\">{}</p>\n", escaped(chart.note));
  return html + "</figure>\n";
}

}  // namespace rueda::examples::report
