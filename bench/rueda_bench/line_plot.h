// SPDX-License-Identifier: Apache-2.0
// Lines over sizes, both axes logarithmic, as an SVG that reads well on light and on dark pages.
#pragma once

#include <string>
#include <vector>

namespace rueda::bench {

struct PlotPoint {
  double bytes = 0;
  double value = 0;
  std::string note;  // shown under the pointer
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points;  // by ascending bytes
};

// A plain value. Bytes and values are positive.
struct LinePlot {
  std::string title;
  std::string subtitle;
  std::string unit;  // of the values
  std::vector<PlotLine> lines;
};

std::string to_svg(const LinePlot& plot);

// 65536 as "64 Ki"; what is no whole number of a unit in bytes.
std::string short_bytes(double bytes);

}  // namespace rueda::bench
