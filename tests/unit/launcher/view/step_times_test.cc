// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/step_times.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher/view/simulated_steps.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kOneMs = SimulatedSteps::kMs;
const StepTimes::Time kTimesBegin{1h};

RankSpan wait_of(std::uint64_t step, std::int64_t begin_ms, std::int64_t end_ms) {
  return {Phase::wait, step, begin_ms * kOneMs, end_ms * kOneMs};
}

TEST(StepTimes, SplitsAWaitWhereTheLastRankArrives) {
  StepTimes times;
  times.expect(2);
  times.add(0, wait_of(4, 10, 25), kTimesBegin);
  EXPECT_TRUE(times.take_shown().empty()) << "rank 1 has not been heard";
  times.add(1, wait_of(4, 18, 26), kTimesBegin);
  const std::vector<ShownSpan> shown = times.take_shown();
  ASSERT_EQ(shown.size(), 3);
  EXPECT_EQ(shown[0].span.end_ns, 18 * kOneMs);
  EXPECT_FALSE(shown[0].moves);
  EXPECT_EQ(shown[1].span.begin_ns, 18 * kOneMs);
  EXPECT_TRUE(shown[1].moves);
  EXPECT_EQ(shown[1].rank, 0);
  EXPECT_TRUE(shown[2].moves);
  EXPECT_EQ(shown[2].rank, 1) << "it is the last, and waits for nobody";
  EXPECT_EQ(times.completed(), 1);
}

TEST(StepTimes, TellsSeveralWaitsOfAStepApart) {
  StepTimes times;
  times.expect(2);
  for (const auto& [begin, end] : {std::pair{10, 12}, {20, 22}})
    times.add(0, wait_of(1, begin, end), kTimesBegin);
  for (const auto& [begin, end] : {std::pair{11, 12}, {19, 22}})
    times.add(1, wait_of(1, begin, end), kTimesBegin);
  ASSERT_EQ(times.waits().size(), 2);
  EXPECT_EQ(times.waits()[0].parts[1].arrival_ns, 11 * kOneMs);
  EXPECT_EQ(times.waits()[1].parts[1].arrival_ns, 19 * kOneMs);
  EXPECT_EQ(times.waits()[1].parts[1].own_ns, 7 * kOneMs);
}

TEST(StepTimes, OwnTimeAndPhasesAreThoseSinceTheWaitBefore) {
  SimulatedSteps steps(2, late(1, Phase::data, 0, 5), 0);
  StepTimes times;
  steps.run_into(times, 3);
  const WaitPart& part = times.waits().back().parts[1];
  EXPECT_EQ(part.own_ns, (1 + 2 + 5 + 10 + 20) * kOneMs);
  EXPECT_EQ(part.phase_ns[static_cast<std::size_t>(Phase::data)], 7 * kOneMs);
  EXPECT_EQ(part.phase_ns[static_cast<std::size_t>(Phase::step)], 1 * kOneMs);
  EXPECT_EQ(times.waits().front().parts[1].own_ns, WaitPart::kUnknown);
}

TEST(StepTimes, DoesNotWaitForARankThatSaysNothing) {
  StepTimes times;
  times.expect(3);
  times.add(0, wait_of(1, 10, 12), kTimesBegin);
  times.add(1, wait_of(1, 11, 12), kTimesBegin);
  times.act(kTimesBegin + 1s);
  EXPECT_TRUE(times.waits().empty());
  times.act(kTimesBegin + 10s);
  EXPECT_EQ(times.waits().size(), 1);
  times.add(0, wait_of(2, 20, 22), kTimesBegin);
  times.add(1, wait_of(2, 21, 22), kTimesBegin);
  times.expect(2);  // the third has ended
  times.act(kTimesBegin);
  EXPECT_EQ(times.waits().size(), 2);
}

TEST(StepTimes, WhatARankKeepsSayingAloneIsBounded) {
  StepTimes times;
  times.expect(2);
  for (std::uint64_t step = 0; step < 20'000; ++step) {
    times.add(0, wait_of(step, static_cast<std::int64_t>(step), static_cast<std::int64_t>(step) + 1),
              kTimesBegin);
    times.act(kTimesBegin);
  }
  EXPECT_GE(times.take_shown().size(), 10'000) << "the oldest are shown as they are";
  EXPECT_TRUE(times.waits().empty()) << "nobody is late alone";
}

}  // namespace
}  // namespace rueda
