// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/lateness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "launcher/view/what_if.h"
#include "tests/unit/launcher/view/simulated_steps.h"

namespace rueda {
namespace {

Lateness after(SimulatedSteps steps, int count) {
  StepTimes times;
  steps.run_into(times, count);
  return lateness_of(times.waits());
}

TEST(Lateness, NamesTheRankThePhaseAndTheMoment) {
  const Lateness all = after(SimulatedSteps(4, late(3, Phase::data, 120, 8)), 300);
  ASSERT_EQ(all.ranks.size(), 4);
  EXPECT_EQ(all.steps, 100);
  const LateRank& worst = all.ranks.front();
  EXPECT_EQ(worst.rank, 3);
  EXPECT_NEAR(worst.late_ms, 8, 0.3);
  EXPECT_NEAR(all.wait_ms, 8, 0.3);
  EXPECT_EQ(worst.share, 1);
  EXPECT_EQ(worst.phase, Phase::data);
  ASSERT_TRUE(worst.since_step);
  EXPECT_NEAR(static_cast<double>(*worst.since_step), 120, 2);
  EXPECT_NEAR(worst.score_best, 33.3 / 41.3, 0.02);
  EXPECT_NEAR(worst.score_own, 33.3 / 41.3, 0.02);
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_LT(all.ranks[i].late_ms, 0.3);
    EXPECT_FALSE(all.ranks[i].since_step);
    EXPECT_GT(all.ranks[i].score_best, 0.98);
  }
}

TEST(Lateness, NamesEachPhaseThatMakesLate) {
  for (const Phase phase : {Phase::data, Phase::forward, Phase::backward, Phase::step}) {
    const Lateness all = after(SimulatedSteps(3, late(1, phase, 0, 4)), 150);
    EXPECT_EQ(all.ranks.front().rank, 1);
    EXPECT_EQ(all.ranks.front().phase, phase);
    EXPECT_LE(all.ranks.front().since_step.value_or(1000), 2) << "it has been late from the first step on";
  }
}

TEST(Lateness, NobodyIsLateWhereAllAreEqual) {
  const Lateness all = after(SimulatedSteps(4, nobody_is_late()), 200);
  for (const LateRank& rank : all.ranks) {
    EXPECT_FALSE(rank.since_step) << rank.rank;
    EXPECT_LT(rank.share, 0.6);
    EXPECT_EQ(std::accumulate(rank.histogram.begin(), rank.histogram.end(), 0U), 100);
  }
}

TEST(Lateness, AfterTwoStepsThatTookFarLongerThanAllBeforeTheirRankIsNamed) {
  for (const int ranks : {2, 3, 8}) {
    const auto pause = [](int rank, Phase phase, std::uint64_t step) {
      return rank == 1 && phase == Phase::data && step >= 100 && step < 104 ? 200 * SimulatedSteps::kMs : 0;
    };
    for (const int steps : {100, 101, 102, 103, 104, 105, 120}) {
      const Lateness all = after(SimulatedSteps(ranks, pause), steps);
      const LateRank* const late = reason_to_wait(all, [](int rank) { return rank == 1; });
      EXPECT_EQ(late != nullptr, steps >= 103 && steps <= 105) << steps;  // one is not over
      EXPECT_FALSE(all.ranks.front().since_step) << "it may be over soon";
      if (late == nullptr) continue;
      EXPECT_EQ(late->rank, 1);
      EXPECT_EQ(late->phase, Phase::data);
      EXPECT_NEAR(late->late_ms, 200, 1);
      EXPECT_NEAR(late->step_ms, 237, 3);
      EXPECT_EQ(reason_to_wait(all, [](int) { return false; }), nullptr);
    }
  }
}

TEST(Lateness, LongWaitsForSeveralRanksNameNone) {
  const auto in_turn = [](int rank, Phase phase, std::uint64_t step) {
    return step >= 100 && rank == static_cast<int>(step % 3) && phase == Phase::data
               ? 200 * SimulatedSteps::kMs
               : 0;
  };
  EXPECT_FALSE(after(SimulatedSteps(3, in_turn), 106).suddenly);
}

TEST(Lateness, ARankThatWasLateOnceAndIsNoMoreIsNot) {
  const auto once = [](int rank, Phase phase, std::uint64_t step) {
    return rank == 2 && phase == Phase::data && step < 50 ? 20 * SimulatedSteps::kMs : 0;
  };
  const Lateness all = after(SimulatedSteps(4, once), 200);
  EXPECT_LT(all.ranks.front().late_ms, 0.3);
  EXPECT_FALSE(all.ranks.front().since_step);
}

TEST(Lateness, SharesAndHistogramsCountRecentStepsOnly) {
  const auto each_fourth = [](int rank, Phase phase, std::uint64_t step) {
    return rank == 1 && phase == Phase::garbage                    ? 0
           : rank == 1 && phase == Phase::forward && step % 4 == 0 ? 50 * SimulatedSteps::kMs
                                                                   : 0;
  };
  const Lateness all = after(SimulatedSteps(4, each_fourth), 300);
  const LateRank& worst = all.ranks.front();
  EXPECT_EQ(worst.rank, 1);
  EXPECT_NEAR(worst.late_ms, 12.5, 0.5);
  EXPECT_NEAR(worst.share, 0.25 + 0.75 / 4, 0.12);
  EXPECT_EQ(worst.histogram[6], 25) << "from 30 to 100 ms";
}

TEST(Lateness, OfTwoRanksOneIsAsLateAsTheOtherWaits) {
  const Lateness all = after(SimulatedSteps(2, late(0, Phase::backward, 0, 6)), 120);
  EXPECT_EQ(all.ranks.front().rank, 0);
  EXPECT_NEAR(all.ranks.front().late_ms, 6, 0.3);
  EXPECT_NEAR(all.wait_ms, 6, 0.3);
  EXPECT_EQ(all.ranks.back().late_ms, 0);
  EXPECT_EQ(all.ranks.front().phase, Phase::backward);
}

// Of a sharded model: rank 1 is late by 1 ms at each of 40 waits, and rank 0 at the first one by 3 ms.
TEST(Lateness, ManyWaitsOfAStepAreSummedUp) {
  constexpr std::int64_t kMs = SimulatedSteps::kMs;
  StepTimes times;
  times.expect(3);
  std::vector<std::int64_t> now(3, 0);
  for (std::uint64_t step = 0; step < 150; ++step) {
    for (int wait = 0; wait < 40; ++wait) {
      std::vector<std::int64_t> begin = now;
      for (std::size_t rank = 0; rank < 3; ++rank)
        now[rank] += 2 * kMs + (rank == 1 ? kMs : 0) + (rank == 0 && wait == 0 ? 3 * kMs : 0);
      const std::int64_t end = std::ranges::max(now) + kMs;
      for (std::size_t rank = 0; rank < 3; ++rank) {
        times.add(static_cast<int>(rank), {Phase::forward, step, begin[rank], now[rank]}, {});
        times.add(static_cast<int>(rank), {Phase::wait, step, now[rank], end}, {});
        now[rank] = end;
      }
    }
  }
  EXPECT_EQ(times.waits().size(), 149) << "the last one may go on";
  const Lateness all = lateness_of(times.waits());
  EXPECT_EQ(all.steps, 100);
  EXPECT_EQ(all.ranks.front().rank, 1);
  EXPECT_NEAR(all.wait_ms, 39 + 2.5, 1e-6);
  EXPECT_NEAR(all.ranks.front().late_ms, 40 - 1.5, 1e-6) << "the others are 3 ms and 0 ms behind in all";
  EXPECT_NEAR(all.own_ms, 83, 1e-6);
  const std::vector<LateSince> late{{1, 0}};
  EXPECT_NEAR(WhatIfs().replay(times.waits(), late).front().faster_percent, 100 * (160.0 / 123 - 1), 1);
}

// The steps before are shorter than the lateness.
TEST(Lateness, IsOfTheSameStepsAsTheirLength) {
  const Lateness all = after(SimulatedSteps(3, late(1, Phase::forward, 100, 80)), 126);
  const LateRank& worst = all.ranks.front();
  ASSERT_EQ(worst.since_step, 100);
  EXPECT_NEAR(worst.late_ms, 80, 1);
  EXPECT_NEAR(worst.step_ms, 36.4 + 80, 1);
  EXPECT_EQ(all.ranks.back().step_ms, 0) << "it is not late";
}

// A checkpoint of one rank, say, of 4 s in one phase.
SimulatedSteps::Extra with_pauses(int who, std::vector<std::uint64_t> steps, double late_ms = 0) {
  return [=](int rank, Phase phase, std::uint64_t step) {
    if (rank != who || phase != Phase::data) return std::int64_t{0};
    const bool pauses = std::ranges::find(steps, step) != steps.end();
    return pauses ? std::int64_t{4'000'000'000} : static_cast<std::int64_t>(late_ms * 1e6);
  };
}

TEST(Lateness, ASinglePauseTellsNothingOfOtherSteps) {
  for (const int count : {252, 300, 349, 352, 360}) {
    const Lateness all = after(SimulatedSteps(2, with_pauses(0, {250})), count);
    EXPECT_LT(all.wait_ms, 0.3) << count;
    EXPECT_NEAR(all.step_ms, 36.2, 0.3) << count;
    EXPECT_FALSE(all.ranks.front().since_step);
    const Lateness late = after(SimulatedSteps(2, with_pauses(1, {250}, 3)), count);
    EXPECT_NEAR(late.wait_ms, 3, 0.3) << count;
    EXPECT_NEAR(late.ranks.front().late_ms, 3, 0.3) << count;
    EXPECT_TRUE(late.ranks.front().since_step && *late.ranks.front().since_step < 10) << count;
  }
}

TEST(Lateness, PausesThatComeAgainAndAgainCount) {
  const Lateness all = after(SimulatedSteps(2, with_pauses(0, {250, 280, 310})), 330);
  EXPECT_NEAR(all.step_ms, 36.2 + 120, 1);
  EXPECT_GT(all.wait_ms, 100);
}

// However many ranks are late, their phases need few sums.
TEST(Lateness, RanksShareTheStepsOfTheirPhases) {
  for (const std::size_t ranks : {2, 512, 4096}) {
    std::set<std::size_t> windows;
    for (std::size_t steps = 1; steps <= 2048; ++steps) {
      windows.insert(phase_window(steps, ranks));
      EXPECT_LE(*windows.rbegin(), steps);
      EXPECT_GT(2 * *windows.rbegin(), std::min<std::size_t>(steps, 100));
    }
    EXPECT_LE(windows.size(), 12);
  }
}

TEST(Lateness, ManyLateRanksHaveEachItsMomentAndPhase) {
  constexpr int kRanks = 64, kLate = 24;
  const auto extra = [](int rank, Phase phase, std::uint64_t step) {
    const bool is_late = rank < kLate && phase == (rank % 2 == 0 ? Phase::data : Phase::backward);
    return is_late && step >= 100 + 2 * static_cast<std::uint64_t>(rank) ? 30 * SimulatedSteps::kMs
                                                                         : std::int64_t{0};
  };
  const Lateness all = after(SimulatedSteps(kRanks, extra), 300);
  for (int i = 0; i < kRanks; ++i) {
    const LateRank& each = all.ranks[static_cast<std::size_t>(i)];
    EXPECT_EQ(each.since_step.has_value(), i < kLate);
    if (i >= kLate) continue;
    ASSERT_LT(each.rank, kLate);
    EXPECT_NEAR(static_cast<double>(each.since_step.value_or(0)), 100 + 2 * each.rank, 2);
    EXPECT_EQ(each.phase, each.rank % 2 == 0 ? Phase::data : Phase::backward);
    EXPECT_NEAR(each.late_ms, 30, 1);
  }
}

TEST(Middle, KnowsTheMedianWithoutAnyNumber) {
  EXPECT_EQ(middle_of({}).count, 0);
  EXPECT_EQ(middle_of({7}).median_without(7), 7);
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::int64_t> numbers(2 + random() % 7);
    for (std::int64_t& number : numbers) number = 2 * static_cast<std::int64_t>(random() % 10);  // some equal
    const Middle middle = middle_of(numbers);
    EXPECT_EQ(middle.first, std::ranges::min(numbers));
    EXPECT_EQ(middle.last, std::ranges::max(numbers));
    EXPECT_EQ(middle.median(), median_or_zero({numbers.begin(), numbers.end()}));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::vector<double> others(numbers.begin(), numbers.end());
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_EQ(static_cast<double>(middle.median_without(numbers[i])), median_or_zero(others));
    }
  }
}

TEST(MedianOf, IsTheMiddle) {
  EXPECT_EQ(median_or_zero({}), 0);
  EXPECT_EQ(median_or_zero({3}), 3);
  EXPECT_EQ(median_or_zero({9, 1, 4}), 4);
  EXPECT_EQ(median_or_zero({9, 1, 4, 5}), 4.5);
}

}  // namespace
}  // namespace rueda
