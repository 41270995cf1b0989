// SPDX-License-Identifier: Apache-2.0
// A chart of lines over one axis of steps, ranks or the like, as HTML.
//
// The curves are SVG stretched over the plot with strokes that keep their width; ticks, legend and titles are
// HTML beside them. So a chart fits every width from a phone's on, with text of one size, and is whole
// without its script, which only adds the values under the pointer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "examples/04_report/axis.h"

namespace rueda::examples::report {

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string words;  // the text that the pointer shows
};

// The owner of a line decides its look: own runs are solid, in colors that differ also for the color-blind,
// published ones dashed with hollow dots, the ideal is thin and dotted.
struct Look {
  enum class Kind { own, published, ideal };
  Kind kind = Kind::own;
  std::size_t index = 0;

  std::string css_class() const;
};

struct ChartLine {
  std::string name;
  Look look;
  std::vector<ChartPoint> points;
  std::vector<ChartPoint> faint;  // drawn thin behind: the points that `points` are the mean of
  bool dots = false;              // mark each point
};

struct Chart {
  std::string title;
  std::string x_title;
  std::string y_title;
  Scale x_scale = Scale::linear;
  Scale y_scale = Scale::linear;
  // Values that the axis shall hold besides the points.
  std::optional<double> y_low;
  std::optional<double> y_high;
  std::string note;  // below the chart
  std::vector<ChartLine> lines;
};

// Points that a logarithmic axis cannot hold, or that are not finite, are left out; a chart without points is
// empty text.
std::string chart_html(const Chart& chart);

}  // namespace rueda::examples::report
