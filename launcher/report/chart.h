// SPDX-License-Identifier: Apache-2.0
// A chart of lines over steps, ranks or the like, as the page draws it.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace rueda::report {

struct ChartPoint {
  double x = 0;
  double y = 0;
  std::string words;  // at the cursor; empty: the page writes x and y
};

// The owner of a line decides its look. A line of the same look has the same colour in all charts of a task.
struct Look {
  enum class Kind { own, published, ideal };
  Kind kind = Kind::own;
  std::size_t index = 0;
};

struct ChartLine {
  std::string name;
  Look look;
  std::vector<ChartPoint> points;
  std::vector<ChartPoint> faint;  // drawn thin behind: the points that `points` are the mean of
  bool dots = false;              // mark each point
};

enum class Scale { linear, log2, log10 };

struct ChartAxis {
  std::string title;
  Scale scale = Scale::linear;
  // Values that the axis shall hold besides the points.
  std::optional<double> low{};
  std::optional<double> high{};
  std::string unit{};  // of x: "step", "seconds"
};

struct Chart {
  std::string title;
  ChartAxis x;
  ChartAxis y;
  std::string note;  // below the chart
  std::vector<ChartLine> lines;
};

// Points that a logarithmic axis cannot hold, or that are not finite, are left out; null for a chart without
// points.
nlohmann::json as_json(const Chart& chart);

}  // namespace rueda::report
