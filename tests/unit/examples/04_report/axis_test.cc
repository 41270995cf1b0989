// SPDX-License-Identifier: Apache-2.0
// Axes: what they hold, and that labels are round and few.
#include "examples/04_report/axis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rueda::examples::report {
namespace {

using testing::ElementsAre;

std::vector<std::string> labels(const Axis& axis) {
  std::vector<std::string> labels;
  for (const Tick& tick : axis.ticks()) labels.push_back(tick.label);
  return labels;
}

TEST(Axis, IsWidenedToRoundNumbers) {
  const Axis axis(Scale::linear, 0.3, 3.9);
  EXPECT_THAT(labels(axis), ElementsAre("0", "1", "2", "3", "4"));
  EXPECT_DOUBLE_EQ(axis.fraction(0), 0);
  EXPECT_DOUBLE_EQ(axis.fraction(1), 0.25);
  EXPECT_DOUBLE_EQ(axis.fraction(4), 1);
  EXPECT_THAT(labels(Axis(Scale::linear, 0.12, 0.29)), ElementsAre("0.10", "0.15", "0.20", "0.25", "0.30"));
  EXPECT_THAT(labels(Axis(Scale::linear, -900, 2000)), ElementsAre("-1,000", "0", "1,000", "2,000"));
}

TEST(Axis, LogarithmicOnesHavePowersAndWhatIsBetween) {
  const Axis ranks(Scale::log2, 1, 8);
  EXPECT_THAT(labels(ranks), ElementsAre("1", "2", "4", "8"));
  EXPECT_DOUBLE_EQ(ranks.fraction(2), 1.0 / 3);
  EXPECT_THAT(labels(Axis(Scale::log2, 1, 3)), ElementsAre("1", "2", "4"));
  EXPECT_THAT(labels(Axis(Scale::log10, 1, 50)), ElementsAre("1", "2", "5", "10", "20", "50"));
  EXPECT_THAT(labels(Axis(Scale::log10, 12.5, 143)), ElementsAre("10", "20", "50", "100", "200"));
  EXPECT_THAT(labels(Axis(Scale::log10, 3, 40000)),
              ElementsAre("1", "10", "100", "1,000", "10,000", "100,000"));
}

// Whatever comes out of a summary: two labels or more, not too many, in order, and every value inside.
TEST(Axis, HoldsWhatever) {
  const std::vector<std::pair<double, double>> ranges = {
      {0, 0},      {5, 5},         {-3, -3},        {1e-300, 1e-300}, {1, 1.0000001},    {0.98, 1.02},
      {1, 1.9},    {3e-9, 4e-9},   {1e-12, 1e12},   {1, 1e300},       {1e15, 1e15 + 10}, {99, 101},
      {1, 1024.0}, {1, 1048576.0}, {1e-308, 1e308}, {0.1, 0.11}};
  for (const Scale scale : {Scale::linear, Scale::log2, Scale::log10}) {
    for (const auto& [low, high] : ranges) {
      if (scale != Scale::linear && low <= 0) continue;
      const Axis axis(scale, low, high);
      SCOPED_TRACE(testing::Message() << static_cast<int>(scale) << ": " << low << " to " << high);
      EXPECT_GE(axis.ticks().size(), 2u);
      EXPECT_LE(axis.ticks().size(), 9u);
      EXPECT_GE(axis.fraction(low), 0);
      EXPECT_LE(axis.fraction(low), axis.fraction(high));
      EXPECT_LE(axis.fraction(high), 1);
      for (std::size_t index = 0; index < axis.ticks().size(); ++index) {
        EXPECT_GE(axis.ticks()[index].fraction, index == 0 ? 0 : axis.ticks()[index - 1].fraction);
        EXPECT_LE(axis.ticks()[index].fraction, 1);
      }
    }
  }
  const Axis lossless(Scale::linear, -1e308, 1e308);
  EXPECT_NEAR(lossless.fraction(0), 0.5, 1e-9);
}

}  // namespace
}  // namespace rueda::examples::report
