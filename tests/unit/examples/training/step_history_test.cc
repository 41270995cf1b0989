// SPDX-License-Identifier: Apache-2.0
#include "examples/lib/training/step_history.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace rueda::examples {
namespace {

StepHistory of_steps(int steps) {
  StepHistory history;
  for (int step = 1; step <= steps; ++step) {
    history.add({.loss = static_cast<double>(step),
                 .learning_rate = step / 1000.0,
                 .seconds = 0.5,
                 .samples = 8,
                 .parts = {{"half", step / 2.0}}});
  }
  return history;
}

TEST(StepHistory, FewStepsAreAPointEach) {
  const auto points = curve(of_steps(3));
  ASSERT_EQ(points.size(), 3);
  EXPECT_EQ(points[1].step, 2);
  EXPECT_EQ(points[1].loss, 2);
  EXPECT_EQ(points[1].learning_rate, 0.002);
  EXPECT_EQ(points[1].samples_per_s, 16);
  EXPECT_EQ(points[1].parts[0], (std::pair<std::string, double>("half", 1)));
  EXPECT_TRUE(curve({}).empty());
}

TEST(StepHistory, ManyStepsAreThinnedToMeans) {
  const auto points = curve(of_steps(1003), 10);
  ASSERT_EQ(points.size(), 10);
  EXPECT_EQ(points[0].step, 100);
  EXPECT_EQ(points[0].loss, 50.5);
  EXPECT_EQ(points[0].parts[0].second, 25.25);
  EXPECT_EQ(points.back().step, 1003);
  EXPECT_EQ(points.back().samples_per_s, 16);
}

TEST(StepHistory, PartsAreKnownByName) {
  StepHistory history;
  history.parts = {{"a", {}}, {"b", {}}};
  history.add({.loss = 3, .parts = {{"b", 2}, {"a", 1}}});
  history.add({.loss = 7, .parts = {{"a", 3}, {"b", 4}}});
  EXPECT_EQ(history.parts[0].second, (std::vector<double>{1, 3}));
  EXPECT_EQ(history.parts[1].second, (std::vector<double>{2, 4}));
  EXPECT_THROW(history.add({.parts = {{"a", 1}}}), std::logic_error);
  EXPECT_THROW(history.add({.parts = {{"a", 1}, {"c", 1}}}), std::logic_error);
}

TEST(StepHistory, KeepsTheFirstSteps) {
  StepHistory history = of_steps(5);
  history.averaged = 4;
  history.keep_first(9);
  EXPECT_EQ(history.losses.size(), 5U);
  EXPECT_EQ(history.averaged, 4U);
  const StepHistory expected = of_steps(2);
  history.keep_first(2);
  EXPECT_EQ(history.losses, expected.losses);
  EXPECT_EQ(history.learning_rates, expected.learning_rates);
  EXPECT_EQ(history.seconds, expected.seconds);
  EXPECT_EQ(history.samples, expected.samples);
  EXPECT_EQ(history.parts, expected.parts);
  EXPECT_EQ(history.averaged, 2U);
}

TEST(StepHistory, TheRateIsOfTheSamplesThatAStepHad) {
  StepHistory history = of_steps(1);
  history.add({.seconds = 0.5, .samples = 24, .parts = {{"half", 0}}});
  EXPECT_EQ(curve(history)[0].samples_per_s, 16);
  EXPECT_EQ(curve(history)[1].samples_per_s, 48);
  EXPECT_EQ(curve(history, 1)[0].samples_per_s, 32);
}

TEST(StepHistory, TheSplitIsOfMedians) {
  const std::vector<StepTime> times{{.whole = 1.0, .data = 0.1, .wait = 0.2, .cpu = 3},
                                    {.whole = 9.0, .data = 0.3, .wait = 0.1, .cpu = 1},
                                    {.whole = 2.0, .data = 0.2, .wait = 0.3, .cpu = 2}};
  const StepSplit split = split_of(times);
  EXPECT_DOUBLE_EQ(split.total, 12000);
  EXPECT_DOUBLE_EQ(split.step, 2000);
  EXPECT_DOUBLE_EQ(split.data, 200);
  EXPECT_DOUBLE_EQ(split.compute, 1500);
  EXPECT_DOUBLE_EQ(split.wait, 200);
  EXPECT_DOUBLE_EQ(split.cpu, 2000);
  EXPECT_EQ(split_of({}).step, 0);
}

}  // namespace
}  // namespace rueda::examples
