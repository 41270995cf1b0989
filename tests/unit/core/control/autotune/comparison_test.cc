// SPDX-License-Identifier: Apache-2.0
// When a candidate wins.
#include "core/control/autotune/comparison.h"

#include <gtest/gtest.h>

#include <vector>

namespace rueda {
namespace {

// The verdict after these ratios of the candidate to a base of 1 second.
std::optional<Comparison::Verdict> verdict_of(const std::vector<double>& ratios) {
  Comparison comparison;
  for (double ratio : ratios) {
    EXPECT_FALSE(comparison.verdict() && comparison.verdict()->alternations != 5);
    EXPECT_TRUE(comparison.of_base());
    comparison.add(1);
    EXPECT_FALSE(comparison.verdict());
    comparison.add(ratio);
  }
  return comparison.verdict();
}

TEST(Comparison, FiveOfFiveThatAreApartWin) {
  const auto verdict = verdict_of({0.9, 0.8, 0.9, 0.96, 0.9});
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->wins);
  EXPECT_NEAR(verdict->gain, 0.1, 1e-9);
  EXPECT_EQ(verdict->better, 5);
  EXPECT_NEAR(verdict->candidate_seconds, 0.9, 1e-9);
  EXPECT_EQ(verdict->base_seconds, 1);
}

TEST(Comparison, ThreePercentOrLessDoNot) {
  const auto verdict = verdict_of({0.98, 0.98, 0.98, 0.5, 0.5});
  ASSERT_TRUE(verdict);
  EXPECT_FALSE(verdict->wins);
  EXPECT_EQ(verdict->better, 2);
}

TEST(Comparison, GoesOnWhileItIsNotClearFifteenTimesAtMost) {
  std::vector<double> ratios{0.9, 0.9, 0.9, 0.9, 1.1};
  EXPECT_FALSE(verdict_of(ratios));
  ratios.insert(ratios.end(), 5, 0.9);  // 9 of 10
  EXPECT_TRUE(verdict_of(ratios)->wins);
  ratios[5] = 1.1;
  EXPECT_FALSE(verdict_of(ratios));
  ratios.insert(ratios.end(), 5, 0.9);  // 13 of 15
  EXPECT_TRUE(verdict_of(ratios)->wins);
  ratios[6] = 1.1;
  EXPECT_FALSE(verdict_of(ratios)->wins);
}

}  // namespace
}  // namespace rueda
