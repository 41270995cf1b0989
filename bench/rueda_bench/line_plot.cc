// SPDX-License-Identifier: Apache-2.0
#include "bench/rueda_bench/line_plot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace rueda::bench {
namespace {

constexpr double kWidth = 760, kHeight = 470;
constexpr double kLeft = 78, kRight = 736, kTop = 92, kBottom = 404;
constexpr std::size_t kColours = 6;

// Colours that differ in lightness too; the page's own text colour is not known, so both sets bring a
// background.
constexpr auto kStyle = R"(<style>
  svg { --paper: #ffffff; --ink: #1c2430; --faint: #5b6675; --grid: #e3e7ec;
        --c0: #0b62c4; --c1: #c2410c; --c2: #13804a; --c3: #8b2fc9; --c4: #946200; --c5: #b3265e; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #14181e; --ink: #e8ecf1; --faint: #a3adba; --grid: #2c333d;
          --c0: #6fb3ff; --c1: #ff9a5a; --c2: #5fd394; --c3: #cfa3ff; --c4: #e6bd4a; --c5: #ff8fb6; }
  }
  text { font: 13px system-ui, sans-serif; fill: var(--ink); }
  .title { font-size: 17px; font-weight: 600; }
  .faint { fill: var(--faint); }
  .grid { stroke: var(--grid); }
  .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
</style>
)";

std::string escaped(const std::string& text) {
  std::string result;
  for (char each : text) {
    if (each == '&') {
      result += "&amp;";
    } else if (each == '<') {
      result += "&lt;";
    } else if (each == '"') {
      result += "&quot;";
    } else {
      result += each;
    }
  }
  return result;
}

// Purpose: where values lie on one axis; a plain value.
struct Axis {
  double low = 0;  // logarithms of base 10
  double high = 1;
  double from = 0;  // pixels
  double to = 1;

  double at(double value) const { return from + (std::log10(value) - low) / (high - low) * (to - from); }
};

struct Axes {
  Axis x{0, 1, kLeft, kRight};
  Axis y{0, 1, kBottom, kTop};
};

std::set<double> sizes_of(const LinePlot& plot) {
  std::set<double> sizes;
  for (const PlotLine& line : plot.lines)
    for (const PlotPoint& point : line.points) sizes.insert(point.bytes);
  return sizes;
}

// Room for all points, and for one point alone.
Axes axes_of(const LinePlot& plot) {
  double least = HUGE_VAL, most = 0;
  for (const PlotLine& line : plot.lines) {
    for (const PlotPoint& point : line.points) {
      least = std::min(least, point.value);
      most = std::max(most, point.value);
    }
  }
  const std::set<double> sizes = sizes_of(plot);
  Axes axes;
  axes.x.low = std::log10(*sizes.begin()) - 0.15;
  axes.x.high = std::log10(*sizes.rbegin()) + 0.15;
  axes.y.low = std::log10(least) - 0.1;
  axes.y.high = std::log10(most) + 0.1;
  return axes;
}

std::string horizontal_grid(const Axis& y) {
  std::string result;
  const bool narrow = y.high - y.low < 2.5;
  for (int decade = static_cast<int>(std::floor(y.low)); decade <= y.high; ++decade) {
    for (int digit : {1, 2, 5}) {
      const double value = digit * std::pow(10, decade), at = y.at(value);
      if (std::log10(value) < y.low || std::log10(value) > y.high) continue;
      if (digit != 1 && !narrow) continue;
      result += fmt::format(R"(<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", kLeft,
                            at, kRight, at);
      result += fmt::format(R"(<text class="faint" x="{:.1f}" y="{:.1f}" text-anchor="end">{:.6g}</text>)",
                            kLeft - 8, at + 4, value);
      result += '\n';
    }
  }
  return result;
}

// A mark for each size that is not too near to the one before.
std::string vertical_grid(const Axis& x, const std::set<double>& sizes) {
  constexpr double kRoomOfLabel = 50;
  std::string result;
  double last = -kRoomOfLabel;
  for (double size : sizes) {
    const double at = x.at(size);
    if (at - last < kRoomOfLabel) continue;
    last = at;
    result += fmt::format(R"(<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", at, kTop,
                          at, kBottom);
    result += fmt::format(R"(<text class="faint" x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", at,
                          kBottom + 20, short_bytes(size));
    result += '\n';
  }
  return result;
}

std::string colour(std::size_t number) { return fmt::format("var(--c{})", number % kColours); }

// The marks of lines differ in form, too.
std::string mark(std::size_t number, double x, double y, const std::string& note) {
  const std::string title = note.empty() ? std::string() : fmt::format("<title>{}</title>", escaped(note));
  if (number % 3 == 0)
    return fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="4.5" fill="{}">{}</circle>)", x, y,
                       colour(number), title);
  const int turn = number % 3 == 1 ? 0 : 45;
  return fmt::format(
      R"svg(<rect x="{:.1f}" y="{:.1f}" width="8" height="8" transform="rotate({} {:.1f} {:.1f})" fill="{}">{}</rect>)svg",
      x - 4, y - 4, turn, x, y, colour(number), title);
}

std::string drawn(const PlotLine& line, std::size_t number, const Axes& axes) {
  std::vector<std::string> path;
  std::string marks;
  for (const PlotPoint& point : line.points) {
    const double x = axes.x.at(point.bytes), y = axes.y.at(point.value);
    path.push_back(fmt::format("{:.1f},{:.1f}", x, y));
    marks += mark(number, x, y, point.note) + '\n';
  }
  return fmt::format(
      "<g class=\"subject\">\n<polyline class=\"line\" stroke=\"{}\" points=\"{}\"/>\n{}</g>\n",
      colour(number), fmt::join(path, " "), marks);
}

std::string legend(const LinePlot& plot) {
  constexpr double kRoomOfLetter = 7.2, kRoomOfMark = 54, kY = 74;
  std::string result;
  double x = kLeft;
  for (std::size_t i = 0; i < plot.lines.size(); ++i) {
    const std::string& name = plot.lines[i].name;
    result += fmt::format(R"(<line class="line" stroke="{}" x1="{:.1f}" y1="{}" x2="{:.1f}" y2="{}"/>)",
                          colour(i), x, kY, x + 26, kY);
    result += mark(i, x + 13, kY, "");
    result += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>\n", x + 33, kY + 4, escaped(name));
    x += kRoomOfMark + kRoomOfLetter * static_cast<double>(name.size());
  }
  return result;
}

}  // namespace

std::string short_bytes(double bytes) {
  constexpr double kUnit = 1024;
  for (const auto& [size, name] :
       {std::pair(kUnit * kUnit * kUnit, "Gi"), {kUnit * kUnit, "Mi"}, {kUnit, "Ki"}}) {
    if (bytes >= size && std::fmod(bytes, size) == 0) return fmt::format("{:.0f} {}", bytes / size, name);
  }
  return fmt::format("{:.0f}", bytes);
}

std::string to_svg(const LinePlot& plot) {
  const Axes axes = axes_of(plot);
  std::string result = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">\n{}<rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>\n",
      kWidth, kHeight, escaped(plot.title), kStyle);
  result += fmt::format("<text class=\"title\" x=\"{}\" y=\"28\">{}</text>\n", kLeft, escaped(plot.title));
  result += fmt::format("<text class=\"faint\" x=\"{}\" y=\"49\">{}</text>\n", kLeft, escaped(plot.subtitle));
  result += horizontal_grid(axes.y) + vertical_grid(axes.x, sizes_of(plot)) + legend(plot);
  result += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">bytes</text>\n", (kLeft + kRight) / 2,
                        kBottom + 48);
  result += fmt::format("<text transform=\"translate(20 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                        (kTop + kBottom) / 2, escaped(plot.unit));
  for (std::size_t i = 0; i < plot.lines.size(); ++i) result += drawn(plot.lines[i], i, axes);
  return result + "</svg>\n";
}

}  // namespace rueda::bench
