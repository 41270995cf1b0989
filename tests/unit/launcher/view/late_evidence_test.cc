// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/late_evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "launcher/view/lateness.h"
#include "tests/unit/launcher/view/noisy_job.h"

namespace rueda {
namespace {

constexpr double kNoCap = std::numeric_limits<double>::max();

std::vector<int> late_ranks(const std::deque<CommonWait>& waits) {
  std::vector<int> ranks;
  for (const LateRank& late : lateness_of(waits).ranks)
    if (late.since_step) ranks.push_back(late.rank);
  return ranks;
}

// With steps between two looks; the first number of steps after which that rank alone is late. 0: never.
int steps_until_found(NoisyJob& job, int rank, int most, int between = 5) {
  for (int steps = 0; steps < most;) {
    job.run(between);
    steps += between;
    if (late_ranks(job.waits()) == std::vector{rank}) return steps;
  }
  return 0;
}

class HealthyJob : public testing::TestWithParam<std::tuple<int, double, double>> {};

// As a page looks at it: about twice a second.
TEST_P(HealthyJob, HasNoLateRank) {
  const auto [ranks, step_ms, jitter] = GetParam();
  const int steps = ranks > 8 ? 4000 : 20'000;
  NoisyJob job(ranks, {.step_ms = step_ms, .jitter = jitter, .pause_ms = 20 * step_ms});
  int mistakes = 0;
  while (job.steps() < static_cast<std::uint64_t>(steps)) {
    job.run(ranks > 8 ? 100 : 50);
    mistakes += static_cast<int>(late_ranks(job.waits()).size());
  }
  EXPECT_EQ(mistakes, 0);
}

INSTANTIATE_TEST_SUITE_P(OfSomeSizes, HealthyJob,
                         testing::Combine(testing::Values(2, 4, 8, 64), testing::Values(3.0, 40.0),
                                          testing::Values(0.05, 0.5)));

TEST(LateEvidence, ATenthOfAStepIsFoundWithinAHundredSteps) {
  for (const int ranks : {2, 4, 8, 64}) {
    for (unsigned seed = 0; seed < 5; ++seed) {
      const auto fault = [](int rank, std::uint64_t step) { return rank == 1 && step >= 600 ? 4.0 : 0.0; };
      NoisyJob job(ranks, {.step_ms = 40, .jitter = 0.1, .pause_ms = 800}, fault, seed);
      job.run(600);
      EXPECT_EQ(late_ranks(job.waits()), std::vector<int>());
      const int found = steps_until_found(job, 1, 100);
      EXPECT_GT(found, 0) << ranks << " ranks, seed " << seed;
    }
  }
}

// Collections of garbage, of 100 ms: their mean counts, however rare they are.
TEST(LateEvidence, RarePausesOfOneRankAreFound) {
  for (const std::uint64_t period : {14, 55}) {
    for (const int ranks : {3, 4}) {
      const auto fault = [=](int rank, std::uint64_t step) {
        return rank == 2 && step >= 300 && step % period == 0 ? 100.0 : 0.0;
      };
      NoisyJob job(ranks, {.step_ms = 3, .pauses = 0.001}, fault);
      job.run(300);
      const int most = 24 * static_cast<int>(period);
      EXPECT_GT(steps_until_found(job, 2, most, 25), 0) << period << ", " << ranks << " ranks";
      job.run(400);
      const LateRank late = lateness_of(job.waits()).ranks.front();
      ASSERT_EQ(late.rank, 2);
      ASSERT_TRUE(late.since_step) << period;
      EXPECT_NEAR(static_cast<double>(*late.since_step), 300, 2.0 * static_cast<double>(period));
      EXPECT_NEAR(late.late_ms, 100.0 / static_cast<double>(period), 40.0 / static_cast<double>(period));
      EXPECT_TRUE(late.explains);
    }
  }
}

// Far beyond all other delays: their number is enough. The pause of another rank does not hide them.
TEST(LateEvidence, SomePausesThatAreFarBeyondAllElseAreEnough) {
  for (const auto& [ranks, enough] : {std::pair{2, 11}, {3, 8}, {4, 6}, {64, 6}}) {
    for (const std::uint64_t period : {20, 80}) {
      for (const bool has_other : {false, true}) {
        const auto fault = [=](int rank, std::uint64_t step) {
          if (rank == 0 && step == 150 && has_other) return 700.0;
          return rank == 1 && step >= 240 && step % period == 0 ? 500.0 : 0.0;
        };
        NoisyJob job(ranks, {.step_ms = 9.6, .pauses = 0}, fault, static_cast<unsigned>(period));
        int pauses = 0;
        while (pauses < 20 && late_ranks(job.waits()) != std::vector{1}) {
          job.run(static_cast<int>(period));
          pauses += job.steps() > 240 ? 1 : 0;
        }
        EXPECT_LE(pauses, has_other ? enough + 3 : enough) << ranks << " ranks, each " << period;
        EXPECT_GE(pauses, 4) << "too few show nothing";
      }
    }
  }
}

// The core of one rank does other work, too: 12 ms each time.
TEST(LateEvidence, PausesThatMachinesHaveBlameNobody) {
  const auto fault = [](int rank, std::uint64_t step) { return rank == 2 && step % 150 == 0 ? 12.0 : 0.0; };
  NoisyJob job(3, {.step_ms = 1.5, .pauses = 0}, fault);
  job.run(100);
  for (int look = 0; look < 30; ++look) {
    job.run(50);
    EXPECT_EQ(late_ranks(job.waits()), std::vector<int>()) << job.steps();
  }
}

// All ranks pause: nobody is the reason, however long the pauses are.
TEST(LateEvidence, RarePausesInTurnBlameNobody) {
  for (const int ranks : {2, 3, 8}) {
    const auto fault = [=](int rank, std::uint64_t step) {
      return step % 20 == 0 && static_cast<int>(step / 20) % ranks == rank ? 500.0 : 0.0;
    };
    NoisyJob job(ranks, {.step_ms = 9.6, .pauses = 0}, fault);
    for (int look = 0; look < 200; ++look) {
      job.run(20);
      EXPECT_EQ(late_ranks(job.waits()), std::vector<int>()) << job.steps();
    }
  }
}

// Each pause hits some rank. A few of these jobs have many pauses of one rank in a row.
TEST(LateEvidence, RarePausesOfAnyRankSeldomBlameOne) {
  int blamed = 0;
  for (const int ranks : {2, 3, 8}) {
    for (unsigned seed = 1; seed <= 60; ++seed) {
      std::mt19937 random(seed);
      std::vector<int> victims;
      for (int i = 0; i < 50; ++i)
        victims.push_back(static_cast<int>(random() % static_cast<unsigned>(ranks)));
      const auto fault = [&](int rank, std::uint64_t step) {
        return step % 20 == 0 && victims[step / 20 % victims.size()] == rank ? 500.0 : 0.0;
      };
      NoisyJob job(ranks, {.step_ms = 9.6, .pauses = 0}, fault, seed);
      bool is_blamed = false;
      for (std::size_t pause = 0; pause + 1 < victims.size(); ++pause) {
        job.run(20);
        is_blamed = is_blamed || !late_ranks(job.waits()).empty();
      }
      blamed += is_blamed ? 1 : 0;
    }
  }
  EXPECT_LE(blamed, 3) << "of 180 jobs";
}

// In the last 1 to 5 % of the steps that are kept, after others with outliers.
TEST(LateEvidence, AYoungFaultHasItsMoment) {
  for (const auto& [step_ms, ms, age] :
       {std::tuple{3.0, 100.0, 25}, {3.0, 6.0, 80}, {40.0, 40.0, 25}, {40.0, 8.0, 60}}) {
    for (const int ranks : {3, 8}) {
      const std::uint64_t begin = 2000;
      const double more = ms;
      const auto fault = [=](int rank, std::uint64_t step) {
        return rank == 1 && step >= begin ? more : rank == 1 && step == 700 ? 2000.0 : 0.0;
      };
      NoisyJob job(ranks, {.step_ms = step_ms, .pauses = 0.002}, fault);
      job.run(static_cast<int>(begin) + age);
      const LateRank late = lateness_of(job.waits()).ranks.front();
      ASSERT_EQ(late.rank, 1);
      ASSERT_TRUE(late.since_step) << ms << " ms of " << step_ms << ", " << ranks << " ranks";
      EXPECT_NEAR(static_cast<double>(*late.since_step), static_cast<double>(begin), 4) << ms;
      EXPECT_NEAR(late.late_ms, ms, 0.3 * ms + 0.3);
    }
  }
}

TEST(LateEvidence, ALatenessThatIsOverIsForgotten) {
  const auto fault = [](int rank, std::uint64_t step) {
    return rank == 1 && step > 200 && step < 900 ? 20.0 : 0.0;
  };
  NoisyJob job(4, {.step_ms = 40}, fault);
  job.run(900);
  EXPECT_EQ(late_ranks(job.waits()), std::vector{1});
  job.run(100);
  EXPECT_EQ(late_ranks(job.waits()), std::vector<int>());
  job.run(1000);
  EXPECT_EQ(late_ranks(job.waits()), std::vector<int>());
}

// Each rank has more work in turn: nobody is the reason.
TEST(LateEvidence, RanksThatAreLateInTurnAreNotNamed) {
  const auto fault = [](int rank, std::uint64_t step) {
    return static_cast<int>(step * 7 % 4) == rank ? 8.0 : 0.0;
  };
  NoisyJob job(4, {.step_ms = 4}, fault);
  for (int looks = 0; looks < 40; ++looks) {
    job.run(50);
    EXPECT_EQ(late_ranks(job.waits()), std::vector<int>());
  }
  EXPECT_GT(lateness_of(job.waits()).wait_ms, 6);
}

// Its steps take twice as long from one to the next. A pause in the steps before is no reason to wait.
TEST(LateEvidence, EightLongStepsAreEnough) {
  for (const int ranks : {2, 3, 8}) {
    for (const double pause : {0.0, 3000.0}) {
      const auto fault = [=](int rank, std::uint64_t step) {
        return rank == 1 && step >= 60 ? 300.0 : rank == 0 && step == 40 ? pause : 0.0;
      };
      NoisyJob job(ranks, {.step_ms = 300, .pauses = 0}, fault);
      job.run(60);
      EXPECT_EQ(late_ranks(job.waits()), std::vector<int>());
      const int found = steps_until_found(job, 1, 20, 1);
      EXPECT_GT(found, 0);
      EXPECT_LE(found, 8) << ranks << " ranks, a pause of " << pause;
      EXPECT_EQ(lateness_of(job.waits()).ranks.front().since_step, 60);
    }
  }
}

// In all of its steps, or in nearly all.
TEST(LateEvidence, EightLongStepsAreEnoughFromTheStart) {
  for (const int ranks : {2, 3, 8}) {
    for (const std::uint64_t begin : {0, 12}) {
      for (const double step_ms : {600.0, 10'000.0}) {
        const auto fault = [=](int rank, std::uint64_t step) {
          return rank == 1 && step >= begin ? step_ms : 0.0;
        };
        NoisyJob job(ranks, {.step_ms = step_ms, .pauses = 0}, fault);
        const int first = std::max<int>(static_cast<int>(begin), 5);  // the warm-up does not count
        job.run(first);
        const int found = steps_until_found(job, 1, 30, 1);
        EXPECT_GT(found, 0);
        EXPECT_LE(found, 8) << ranks << " ranks, from step " << begin;
        for (int step = found; step < 60; ++step) {
          job.run(1);
          ASSERT_EQ(late_ranks(job.waits()), std::vector{1}) << step;
        }
        EXPECT_EQ(lateness_of(job.waits()).ranks.front().since_step, begin);
      }
    }
  }
}

TEST(LateEvidence, UnequalStepsAtTheStartBlameNobody) {
  for (const int ranks : {2, 3, 8}) {
    for (unsigned seed = 1; seed <= 200; ++seed) {
      NoisyJob job(ranks, {.step_ms = 600, .jitter = 1, .pauses = 0.02, .pause_ms = 6000}, {}, seed);
      for (int step = 0; step < 50; ++step) {
        job.run(1);
        EXPECT_EQ(late_ranks(job.waits()), std::vector<int>()) << ranks << ", seed " << seed;
      }
    }
  }
}

// It has always been late by a little.
TEST(LateEvidence, ALatenessThatGrowsHasTheMomentOfItsGrowth) {
  const auto fault = [](int rank, std::uint64_t step) { return rank == 0 ? 0.0 : step >= 60 ? 300.0 : 0.3; };
  NoisyJob job(2, {.step_ms = 300, .jitter = 0.001, .pauses = 0, .warm_up = 0}, fault);
  job.run(60);
  EXPECT_EQ(late_ranks(job.waits()), std::vector<int>()) << "by too little";
  for (int step = 4; step < 60; ++step) {
    job.run(step == 4 ? 4 : 1);
    const LateRank late = lateness_of(job.waits()).ranks.front();
    EXPECT_EQ(late.since_step, 60) << step;
    EXPECT_NEAR(late.late_ms, 300, 2) << step;
  }
}

// Steps of one rank are longer by much for a while, again and again, each time by about as much.
class BusySpells {
 public:
  explicit BusySpells(unsigned seed) : random_(seed) {}

  double operator()(int rank, std::uint64_t) {
    Spell& spell = spells_[static_cast<std::size_t>(rank)];
    if (spell.steps == 0 && chance() < 0.01) {
      spell.steps = 1 + std::geometric_distribution<int>(0.5)(random_);
      spell.ms = 60 * std::pow(1 - chance(), -1 / 1.5);  // without an upper limit
    }
    if (spell.steps == 0) return 0;
    --spell.steps;
    return spell.ms * (0.8 + 0.4 * chance());
  }

 private:
  struct Spell {
    int steps = 0;
    double ms = 0;
  };

  double chance() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  std::mt19937 random_;
  std::array<Spell, 4> spells_{};
};

TEST(LateEvidence, SpellsOfABusyMachineBlameNobody) {
  for (const int ranks : {2, 4}) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
      NoisyJob job(ranks, {.step_ms = 300, .pauses = 0.005, .pause_ms = 6000}, BusySpells(seed), seed);
      job.run(20);
      for (int look = 0; look < 1000; ++look) {
        job.run(1);
        EXPECT_EQ(late_ranks(job.waits()), std::vector<int>()) << job.steps() << ", seed " << seed;
      }
    }
  }
}

// Of 0.1 s: a spell of eight steps is too short.
TEST(LateEvidence, ASpellThatIsOverSoonBlamesNobody) {
  const auto fault = [](int rank, std::uint64_t step) {
    return rank == 1 && step >= 200 && step < 208 ? 100.0 : 0.0;
  };
  NoisyJob job(2, {.step_ms = 100, .pauses = 0}, fault);
  job.run(200);
  EXPECT_EQ(steps_until_found(job, 1, 20, 1), 0);
}

TEST(LateEvidence, DelaysOfShortStepsAreSummedUp) {
  NoisyJob job(2, {.step_ms = 3, .jitter = 0, .pauses = 0, .warm_up = 0},
               [](int rank, std::uint64_t) { return rank == 1 ? 1.0 : 0.0; });
  job.run(80);
  const std::vector<Delays> delays = delays_of(job.waits(), arrivals_of(job.waits()), 10);
  ASSERT_GT(delays.size(), 8);
  EXPECT_EQ(delays.front().first, 10);
  const auto steps = static_cast<double>(delays[1].first - delays[0].first);
  EXPECT_GE(steps * 4.3, 25);
  EXPECT_NEAR(delays.front().sum[1], steps * 0.5, 1e-3);
  EXPECT_NEAR(delays.front().sum[0], -steps * 0.5, 1e-3);
}

TEST(ChangePoint, IsWhereTheMeanRises) {
  std::vector<double> values(100, 1.0);
  values.resize(160, 5.0);
  EXPECT_EQ(change_point(values, kNoCap), 0) << "the sum is not as high as five such values";
  EXPECT_EQ(change_point(values, 5), 100);
  values[20] = 1000;  // an outlier
  EXPECT_EQ(change_point(values, 5), 100);
  EXPECT_EQ(best_split(values, 5), 100);
  EXPECT_EQ(change_point(std::vector<double>(50, 2.0), 2), 0);
  EXPECT_EQ(change_point({}, 1), 0);
  std::vector<double> falls(100, 5.0);
  falls.resize(200, 1.0);
  EXPECT_EQ(change_point(falls, 5), 0);
}

}  // namespace
}  // namespace rueda
