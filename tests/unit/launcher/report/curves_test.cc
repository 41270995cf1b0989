// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/curves.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace rueda::report {
namespace {

std::vector<ChartPoint> line(std::size_t count, double slope) {
  std::vector<ChartPoint> points;
  for (std::size_t index = 0; index < count; ++index)
    points.push_back({static_cast<double>(index), slope * static_cast<double>(index), {}});
  return points;
}

TEST(Thinned, KeepsExtremesEndsAndOrder) {
  std::vector<ChartPoint> points = line(10000, 0.001);
  points[4321].y = 99;
  points[7654].y = -99;
  const std::vector<ChartPoint> kept = thinned(points, 100);
  EXPECT_LE(kept.size(), 102u);
  EXPECT_GE(kept.size(), 50u);
  EXPECT_EQ(kept.front().x, 0);
  EXPECT_EQ(kept.back().x, 9999);
  EXPECT_TRUE(std::ranges::is_sorted(kept, {}, &ChartPoint::x));
  EXPECT_EQ(std::ranges::max(kept, {}, &ChartPoint::y).x, 4321);
  EXPECT_EQ(std::ranges::min(kept, {}, &ChartPoint::y).x, 7654);
  EXPECT_EQ(thinned(line(7, 1), 7).size(), 7u);
}

TEST(Smoothed, LeavesAStraightLineAndTakesOutJumps) {
  const std::vector<ChartPoint> straight = line(50, 2);
  const std::vector<ChartPoint> same = smoothed(straight, 5);
  for (std::size_t index = 0; index < straight.size(); ++index)
    EXPECT_NEAR(same[index].y, straight[index].y, 1e-9);

  std::vector<ChartPoint> jumps = line(101, 0);
  for (std::size_t index = 0; index < jumps.size(); index += 2) jumps[index].y = 1;
  EXPECT_NEAR(smoothed(jumps, 10)[50].y, 11.0 / 21, 1e-12);
  EXPECT_TRUE(smoothed({}, 3).empty());
}

}  // namespace
}  // namespace rueda::report
