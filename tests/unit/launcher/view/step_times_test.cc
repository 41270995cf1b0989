// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/step_times.h"

#include <gtest/gtest.h>

#include <array>

#include <algorithm>

#include "tests/unit/launcher/view/simulated_steps.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kOneMs = SimulatedSteps::kMs;
const StepTimes::Time kTimesBegin{1h};

RankSpan wait_of(std::uint64_t step, std::int64_t begin_ms, std::int64_t end_ms) {
  return {Phase::wait, step, begin_ms * kOneMs, end_ms * kOneMs};
}

RankSpan work_of(std::uint64_t step, std::int64_t begin_ms, std::int64_t end_ms) {
  return {Phase::forward, step, begin_ms * kOneMs, end_ms * kOneMs};
}

// Some time of work, then the wait.
void work_and_wait(StepTimes& times, int rank, std::uint64_t step, std::int64_t begin_ms,
                   std::int64_t arrival_ms, std::int64_t end_ms) {
  times.add(rank, work_of(step, begin_ms, arrival_ms), kTimesBegin);
  times.add(rank, wait_of(step, arrival_ms, end_ms), kTimesBegin);
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

TEST(StepTimes, PutsTheWaitsOfAStepTogetherWhenItIsComplete) {
  StepTimes times;
  times.expect(2);
  work_and_wait(times, 0, 1, 0, 10, 12);
  work_and_wait(times, 0, 1, 12, 20, 23);
  work_and_wait(times, 0, 2, 23, 30, 32);
  work_and_wait(times, 1, 1, 0, 11, 12);
  work_and_wait(times, 1, 1, 12, 22, 23);
  EXPECT_EQ(times.completed(), 2);
  EXPECT_TRUE(times.waits().empty()) << "the step may have more of them";
  work_and_wait(times, 1, 2, 23, 31, 32);
  ASSERT_EQ(times.waits().size(), 1);
  const CommonWait& wait = times.waits()[0];
  EXPECT_EQ(wait.parts[0].arrival_ns, 10 * kOneMs);
  EXPECT_EQ(wait.parts[1].arrival_ns, 13 * kOneMs) << "1 ms and 2 ms after rank 0";
  EXPECT_EQ(wait.parts[0].release_ns, 15 * kOneMs) << "1 ms of moves each";
  EXPECT_EQ(wait.parts[1].own_ns, 10 * kOneMs) << "the first one is not known";
  EXPECT_EQ(wait.parts[1].phase_ns[static_cast<std::size_t>(Phase::forward)], 21 * kOneMs);
  EXPECT_EQ(wait.waited_ns, 3 * kOneMs);
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
  for (const int rank : {0, 1}) work_and_wait(times, rank, 1, 0, 10 + rank, 12);
  times.act(kTimesBegin + 1s);
  EXPECT_EQ(times.completed(), 0);
  times.act(kTimesBegin + 10s);
  EXPECT_EQ(times.completed(), 1);
  for (const int rank : {0, 1}) work_and_wait(times, rank, 2, 12, 20 + rank, 22);
  times.expect(2);  // the third has ended
  times.act(kTimesBegin);
  EXPECT_EQ(times.completed(), 2);
}

TEST(StepTimes, ARankThatHasMissedManyWaitsIsExpectedAgainFromItsNextOneOn) {
  StepTimes times;
  times.expect(3);
  std::uint64_t step = 0;
  const auto both = [&] {
    const auto begin = static_cast<std::int64_t>(step) * 10;
    for (const int rank : {0, 1}) work_and_wait(times, rank, step, begin, begin + 8 + rank, begin + 10);
    ++step;
  };
  for (int i = 0; i < 10; ++i) both();
  EXPECT_EQ(times.completed(), 0);
  times.act(kTimesBegin + 3s);
  EXPECT_EQ(times.completed(), 10);
  both();
  EXPECT_EQ(times.completed(), 11) << "nobody waits for rank 2, which never waits";
  work_and_wait(times, 2, step, 110, 119, 120);
  both();
  EXPECT_EQ(times.completed(), 12);
  both();
  EXPECT_EQ(times.completed(), 12) << "it has begun to wait, as the others do";
  work_and_wait(times, 2, step - 1, 120, 129, 130);
  EXPECT_EQ(times.completed(), 13);
}

TEST(StepTimes, AWaitWithoutARankThatTookPartIsNotSplit) {
  StepTimes times;
  times.expect(3);
  for (const int rank : {0, 1, 2}) work_and_wait(times, rank, 1, 0, 8 + rank, 12);
  for (const int rank : {0, 2}) work_and_wait(times, rank, 2, 12, 20 + rank, 30);
  times.take_shown();
  times.act(kTimesBegin + 3s);
  const auto moves = [&] { return std::ranges::count(times.take_shown(), true, &ShownSpan::moves); };
  EXPECT_EQ(moves(), 0) << "rank 1 may not have arrived at all";
  times.expect({0, 2});
  times.note_end(1, 40 * kOneMs);
  for (const int rank : {0, 2}) work_and_wait(times, rank, 3, 30, 35 + rank, 45);
  EXPECT_EQ(moves(), 0) << "it has left meanwhile";
  for (const int rank : {0, 2}) work_and_wait(times, rank, 4, 45, 50 + rank, 55);
  EXPECT_EQ(moves(), 2) << "the others go on without it";
}

TEST(StepTimes, AStepBackForgetsTheStepsThatComeOnceMore) {
  StepTimes times;
  times.expect(2);
  const auto both = [&](std::uint64_t step, std::int64_t begin) {
    for (const int rank : {0, 1}) work_and_wait(times, rank, step, begin, begin + 8 + rank, begin + 10);
  };
  for (std::uint64_t step = 0; step < 3000; ++step) both(step, static_cast<std::int64_t>(step) * 10);
  EXPECT_EQ(times.waits().back().step, 2998);
  // Rank 0 is told first, of several steps.
  for (const int rank : {0, 1})
    for (std::int64_t step = 2990; step < 2995; ++step) {
      const std::int64_t begin = 30'000 + (step - 2990) * 10;
      work_and_wait(times, rank, static_cast<std::uint64_t>(step), begin, begin + 6 + 3 * rank, begin + 10);
    }
  ASSERT_GE(times.waits().size(), 4);
  EXPECT_EQ(times.waits().back().step, 2993);
  EXPECT_EQ(times.waits()[times.waits().size() - 4].step, 2990);
  EXPECT_EQ(times.waits()[times.waits().size() - 4].waited_ns, 3 * kOneMs) << "of the second time";
  EXPECT_EQ(times.waits()[times.waits().size() - 5].step, 2989);
  EXPECT_EQ(times.waits()[times.waits().size() - 5].waited_ns, 1 * kOneMs);
  for (std::uint64_t step = 0; step < 5; ++step) both(step, 30'050 + static_cast<std::int64_t>(step) * 10);
  EXPECT_EQ(times.waits().size(), 4) << "another program begins at step 0";
}

TEST(StepTimes, WaitsOfDifferentGroupsAreNotCompared) {
  StepTimes times;
  times.expect(4);
  for (std::uint64_t step = 0; step < 3; ++step) {
    const std::int64_t begin = static_cast<std::int64_t>(step) * 1000;
    for (const int rank : {0, 1}) {
      work_and_wait(times, rank, step, begin, begin + 10 + rank, begin + 12);
      times.add(rank, work_of(step, begin + 12, begin + 1000), kTimesBegin);
    }
    for (const int rank : {2, 3}) work_and_wait(times, rank, step, begin, begin + 900, begin + 1000);
  }
  EXPECT_EQ(times.completed(), 0) << "ranks 0 and 1 go on before the others come";
  const std::vector<ShownSpan> shown = times.take_shown();
  EXPECT_TRUE(std::ranges::none_of(shown, &ShownSpan::moves));
  EXPECT_EQ(std::ranges::count(shown, Phase::wait, [](const ShownSpan& each) { return each.span.phase; }),
            12);
}

TEST(StepTimes, AGapHidesTheRestOfItsStep) {
  for (const std::uint64_t behind : {5, 9}) {  // in the middle of a step, and some steps later
    StepTimes times;
    times.expect(2);
    for (std::uint64_t step = 3; step < 6; ++step)
      for (const int rank : {0, 1}) {
        const std::int64_t begin = static_cast<std::int64_t>(step) * 10;
        work_and_wait(times, rank, step, begin, begin + 8 + rank, begin + 10);
      }
    EXPECT_EQ(times.completed(), 3);
    for (const int rank : {0, 1}) {
      work_and_wait(times, rank, behind, 5000, 5008 + rank, 5010);
      work_and_wait(times, rank, 10, 5010, 5016 + rank, 5020);
      work_and_wait(times, rank, 11, 5020, 5026 + rank, 5030);
    }
    EXPECT_EQ(times.completed(), behind == 5 ? 3 + 1 : 3 + 2) << behind;
    const WaitPart& part = times.waits().back().parts[1];
    if (behind == 9) {
      EXPECT_EQ(part.own_ns, 7 * kOneMs) << "not the seconds without any news";
    }
    for (const CommonWait& wait : times.waits())
      for (const WaitPart& each : wait.parts) EXPECT_LT(each.own_ns, 20 * kOneMs);
  }
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

// Moves end 0.9 ms later on rank 1, in each step. From step 50 on its own work takes 3 ms more.
TEST(StepTimes, ARankThatGetsResultsLaterIsNotLate) {
  constexpr std::int64_t kMs = SimulatedSteps::kMs;
  StepTimes times;
  times.expect(2);
  std::array<std::int64_t, 2> now{kMs, kMs};
  for (std::uint64_t step = 0; step < 100; ++step) {
    const std::array<std::int64_t, 2> begin = now;
    now[0] += 10 * kMs;
    now[1] += (step < 50 ? 10 : 13) * kMs;
    const std::int64_t last = std::max(now[0], now[1]);
    const std::array<std::int64_t, 2> end{last + 2 * kMs, last + 2 * kMs + 900'000};
    for (std::size_t rank = 0; rank < 2; ++rank) {
      times.add(static_cast<int>(rank), {Phase::forward, step, begin[rank], now[rank]}, {});
      times.add(static_cast<int>(rank), {Phase::wait, step, now[rank], end[rank]}, {});
    }
    now = end;
  }
  ASSERT_EQ(times.waits().size(), 99);
  EXPECT_EQ(times.waits()[0].waited_ns, 0);
  for (const std::size_t step : {1, 30, 49}) EXPECT_EQ(times.waits()[step].waited_ns, 0) << step;
  for (const std::size_t step : {50, 80}) EXPECT_EQ(times.waits()[step].waited_ns, 3 * kMs) << step;
}

}  // namespace
}  // namespace rueda
