// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/what_if.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher/view/simulated_steps.h"

namespace rueda {
namespace {

constexpr int kReplayed = 200, kManySteps = 700;

// In the same time, of the job without what makes it late.
double true_gain(int ranks, const SimulatedSteps::Extra& extra, int steps = kReplayed) {
  SimulatedSteps with(ranks, extra), without(ranks, nobody_is_late());
  StepTimes ignored;
  with.run_into(ignored, steps);
  without.run_into(ignored, steps);
  return 100 * (static_cast<double>(with.now()) / static_cast<double>(without.now()) - 1);
}

double faster(const std::deque<CommonWait>& waits, int rank, std::uint64_t since) {
  const std::vector<LateSince> late{{rank, since}};
  return WhatIfs().replay(waits, late).front().faster_percent;
}

double predicted(int ranks, const SimulatedSteps::Extra& extra, int rank) {
  SimulatedSteps steps(ranks, extra);
  StepTimes times;
  steps.run_into(times, kReplayed);
  return faster(times.waits(), rank, 0);
}

TEST(WhatIf, IsTheTrueGain) {
  for (const double ms : {2.0, 8.0, 40.0}) {
    const auto extra = late(3, Phase::data, 0, ms);
    EXPECT_NEAR(predicted(4, extra, 3), true_gain(4, extra), 0.02 * true_gain(4, extra) + 0.5) << ms;
  }
}

TEST(WhatIf, WithoutARankThatIsNotLateNothingIsFaster) {
  EXPECT_NEAR(predicted(4, late(3, Phase::data, 0, 8), 1), 0, 0.1);
  EXPECT_NEAR(predicted(4, nobody_is_late(), 2), 0, 0.5);
}

TEST(WhatIf, TheNextLateRankSetsTheLimit) {
  const auto two = [](int rank, Phase phase, std::uint64_t) {
    return phase == Phase::forward ? (rank == 3 ? 10 : rank == 2 ? 6 : 0) * SimulatedSteps::kMs : 0;
  };
  const double whole = true_gain(5, two);
  const double first = predicted(5, two, 3);
  EXPECT_NEAR(first, 100 * (46.3 / 42.3 - 1), 1) << "rank 2 is late, too";
  EXPECT_LT(first, 0.6 * whole);
}

// A pause of 90 ms in every 90th step: the last 100 steps have one or two, the last 500 always about as many.
TEST(WhatIf, RarePausesCountAsOftenAsTheyCome) {
  const auto pauses = [](int rank, Phase phase, std::uint64_t step) {
    return rank == 2 && phase == Phase::forward && step % 90 == 0 ? 90 * SimulatedSteps::kMs : 0;
  };
  for (int steps = kManySteps; steps < kManySteps + 90; steps += 7) {
    SimulatedSteps simulated(4, pauses);
    StepTimes times;
    simulated.run_into(times, steps);
    const double gain = true_gain(4, pauses, 900);
    EXPECT_NEAR(faster(times.waits(), 2, 0), gain, 0.2 * gain) << steps;
  }
}

// Its first steps are without a fault, and the fault is younger than 500 steps.
TEST(WhatIf, IsOfTheStepsSinceTheLatenessBegan) {
  const auto extra = late(3, Phase::data, kManySteps - 150, 8);
  SimulatedSteps simulated(4, extra);
  StepTimes times;
  simulated.run_into(times, kManySteps);
  const double gain = true_gain(4, late(3, Phase::data, 0, 8));
  EXPECT_NEAR(faster(times.waits(), 3, kManySteps - 150), gain, 0.02 * gain + 0.5);
}

TEST(WhatIf, OfNothingIsNothing) {
  const std::vector<LateSince> late{{0, 0}};
  EXPECT_TRUE(WhatIfs().replay({}, late).empty());
}

}  // namespace
}  // namespace rueda
