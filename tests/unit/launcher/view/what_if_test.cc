// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/what_if.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher/view/noisy_job.h"
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

// From step 150 on all ranks have more work. Rank 1 is late since step 100.
TEST(WhatIf, WorkOfAllRanksIsNoLatenessOfOne) {
  const auto longer = [](bool late) {
    return [late](int rank, Phase phase, std::uint64_t step) {
      return (phase == Phase::forward && step >= 150 ? 20 * SimulatedSteps::kMs : 0) +
             (phase == Phase::data && rank == 1 && step >= 100 && late ? 3 * SimulatedSteps::kMs : 0);
    };
  };
  SimulatedSteps with(2, longer(true));
  StepTimes times;
  with.run_into(times, 300);
  WhatIfs what_ifs;
  const std::vector<LateSince> late{{1, 100}};
  const double told = what_ifs.replay(times.waits(), late).front().faster_percent;
  EXPECT_NEAR(told, 100 * 3 / 53.0, 3);
}

TEST(WhatIf, ASinglePauseIsLeftOut) {
  const auto extra = [](int rank, Phase phase, std::uint64_t step) {
    if (rank != 1 || phase != Phase::data) return std::int64_t{0};
    return step == 120 ? 5000 * SimulatedSteps::kMs : 3 * SimulatedSteps::kMs;
  };
  EXPECT_NEAR(predicted(2, extra, 1), true_gain(2, late(1, Phase::data, 0, 3)), 1);
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

TEST(WhatIf, AFaultOfTheLastStepsHasItsWholeGain) {
  const double gain = true_gain(2, late(1, Phase::forward, 0, 36));
  for (const int age : {10, 25, 60}) {
    SimulatedSteps simulated(2, late(1, Phase::forward, 100, 36));
    StepTimes times;
    simulated.run_into(times, 101 + age);
    EXPECT_NEAR(faster(times.waits(), 1, 100), gain, 0.03 * gain) << age;
    EXPECT_NEAR(faster(times.waits(), 1, 103), gain, 0.03 * gain) << "the moment may be a little off";
  }
}

// While the others wait, caches and cores cool down: then their own work takes a fifth longer.
SimulatedSteps::Extra late_and_cold(std::uint64_t since) {
  return [=](int rank, Phase phase, std::uint64_t step) {
    if (step < since || phase != Phase::forward) return std::int64_t{0};
    return (rank == 1 ? 200 : 7) * SimulatedSteps::kMs;
  };
}

TEST(WhatIf, WorkIsAsFastAsBeforeTheMoment) {
  SimulatedSteps simulated(3, late_and_cold(60));
  StepTimes times;
  simulated.run_into(times, 160);
  const double gain = true_gain(3, late_and_cold(0));
  EXPECT_NEAR(faster(times.waits(), 1, 60), gain, 0.05 * gain);
  EXPECT_LT(faster(times.waits(), 1, 0), 0.9 * gain) << "the steps before its moment are not known";
}

TEST(WhatIf, RemembersTheStepsBeforeTheMoment) {
  SimulatedSteps simulated(3, late_and_cold(60));
  StepTimes times;
  const double gain = true_gain(3, late_and_cold(0));
  WhatIfs what_ifs;
  for (int look = 0; look < 25; ++look) {
    simulated.run_into(times, 100);
    const bool is_kept = times.waits().front().step < 40;
    const std::vector<LateSince> late{{1, is_kept ? 60 : times.waits().front().step}};
    EXPECT_NEAR(what_ifs.replay(times.waits(), late).front().faster_percent, gain, 0.05 * gain) << look;
  }
  EXPECT_GT(times.waits().front().step, 60);
  for (int look = 0; look < 25; ++look) EXPECT_TRUE(what_ifs.replay(times.waits(), {}).empty());
  const std::vector<LateSince> anew{{1, times.waits().front().step}};
  EXPECT_LT(what_ifs.replay(times.waits(), anew).front().faster_percent, 0.9 * gain) << "it was punctual";
}

// Of unequal steps, the medians before and after are as often too long as too short.
TEST(WhatIf, IsNotTooHighOnAverage) {
  const auto fault = [](int rank, std::uint64_t step) { return rank == 2 && step >= 30 ? 40.0 : 0.0; };
  const auto early = [](int rank, std::uint64_t step) { return rank == 2 && step >= 30 ? -80.0 : 0.0; };
  constexpr int kJobs = 100;
  double error = 0;
  for (unsigned seed = 1; seed <= kJobs; ++seed) {
    const NoisyJob::Noise noise{.step_ms = 40, .jitter = 1, .pauses = 0, .warm_up = 0};
    NoisyJob with(3, noise, fault, seed), without(3, noise, early, seed);
    with.run(130);
    without.run(130);
    const auto took = [](const NoisyJob& job) {
      return static_cast<double>(job.waits().back().parts[0].release_ns -
                                 job.waits()[29].parts[0].release_ns);
    };
    error += faster(with.waits(), 2, 30) - 100 * (took(with) / took(without) - 1);
  }
  EXPECT_NEAR(error / kJobs, 0, 1);
}

// From the moment on all have three times as much to do.
TEST(WhatIf, OtherWorkIsNotThatOfBefore) {
  const auto extra = [](int rank, Phase phase, std::uint64_t step) {
    if (step < 60 || phase != Phase::forward) return std::int64_t{0};
    return (rank == 1 ? 140 : 70) * SimulatedSteps::kMs;
  };
  SimulatedSteps simulated(3, extra);
  StepTimes times;
  simulated.run_into(times, 160);
  EXPECT_NEAR(faster(times.waits(), 1, 60), 100 * (176.4 / 106.4 - 1), 3);
}

// A slow network card, say, makes the moves of all ranks long.
TEST(WhatIf, LongMovesDoNotGoWithARankThatIsLate) {
  std::deque<CommonWait> waits;
  std::int64_t now = 0;
  for (std::uint64_t step = 0; step < 300; ++step) {
    CommonWait wait;
    wait.step = step;
    const std::int64_t moves = (step < 150 ? 3 : 40) * SimulatedSteps::kMs;
    for (const int rank : {0, 1, 2}) {
      WaitPart part;
      part.is_there = true;
      part.own_ns = (rank == 2 && step >= 150 ? 12 : 10) * SimulatedSteps::kMs;
      part.arrival_ns = now + part.own_ns;
      wait.parts.push_back(part);
    }
    now = last_arrival(wait) + moves;
    for (WaitPart& part : wait.parts) part.release_ns = now;
    waits.push_back(wait);
  }
  EXPECT_NEAR(faster(waits, 2, 150), 100 * (52.0 / 50 - 1), 0.5);
}

TEST(WhatIf, OfNothingIsNothing) {
  const std::vector<LateSince> late{{0, 0}};
  EXPECT_TRUE(WhatIfs().replay({}, late).empty());
}

}  // namespace
}  // namespace rueda
