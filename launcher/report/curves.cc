// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/curves.h"

#include <algorithm>

namespace rueda::report {

std::vector<ChartPoint> thinned(const std::vector<ChartPoint>& points, std::size_t most) {
  if (points.size() <= most || most < 2) return points;
  const std::size_t stretches = std::max<std::size_t>(1, most / 2);
  std::vector<ChartPoint> kept;
  for (std::size_t stretch = 0; stretch < stretches; ++stretch) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(points.size() * stretch / stretches);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(points.size() * (stretch + 1) / stretches);
    const auto [lowest, highest] = std::minmax_element(
        begin, end, [](const ChartPoint& left, const ChartPoint& right) { return left.y < right.y; });
    kept.push_back(*std::min(lowest, highest));
    if (lowest != highest) kept.push_back(*std::max(lowest, highest));
  }
  if (kept.front().x != points.front().x) kept.insert(kept.begin(), points.front());
  if (kept.back().x != points.back().x) kept.push_back(points.back());
  return kept;
}

std::vector<ChartPoint> smoothed(const std::vector<ChartPoint>& points, std::size_t reach) {
  std::vector<double> sums(points.size() + 1, 0.0);
  for (std::size_t index = 0; index < points.size(); ++index) sums[index + 1] = sums[index] + points[index].y;
  std::vector<ChartPoint> means = points;
  for (std::size_t index = 0; index < points.size(); ++index) {
    // As far to the left as to the right, else the ends would lean inwards.
    const std::size_t here = std::min({reach, index, points.size() - 1 - index});
    means[index].y = (sums[index + here + 1] - sums[index - here]) / static_cast<double>(2 * here + 1);
  }
  return means;
}

}  // namespace rueda::report
