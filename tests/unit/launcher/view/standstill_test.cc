// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "launcher/view/progress.h"

namespace rueda {
namespace {

using Ranks = std::vector<PresentPhase>;

TEST(Standstill, ShortStepsAreMissedAfterHalfASecond) {
  EXPECT_EQ(notable_wait(3), 0.5);
  EXPECT_EQ(notable_wait(1000), 3);
  EXPECT_EQ(notable_wait(60'000), 40) << "not three minutes";
  EXPECT_EQ(stalled_wait(3), 5);
  EXPECT_EQ(stalled_wait(2000), 20);
  EXPECT_EQ(stalled_wait(60'000), 120);
  for (double step = 1; step < 1e6; step *= 1.3) EXPECT_GT(stalled_wait(step), 1.5 * notable_wait(step));
  EXPECT_GT(stalled_wait(0), notable_wait(0)) << "before the first step";
}

TEST(Standstill, NamesTheRankForWhichOthersWait) {
  Ranks ranks{{0, Phase::wait, 7, 0.4}, {1, Phase::data, 7, 0.41}, {2, Phase::wait, 7, 0.3}};
  EXPECT_FALSE(standstill_of(ranks, 3, true)) << "not yet";
  ranks[0].seconds = 0.6;
  auto still = standstill_of(ranks, 3, true);
  ASSERT_TRUE(still && still->culprit);
  EXPECT_EQ(still->culprit->rank, 1);
  EXPECT_EQ(still->culprit->phase, Phase::data);
  EXPECT_FALSE(still->is_stall);
  EXPECT_EQ(still->seconds, 0.6);
  ranks[0].seconds = 5.1;
  still = standstill_of(ranks, 3, true);
  EXPECT_TRUE(still && still->is_stall);
  EXPECT_FALSE(standstill_of(ranks, 2000, true)) << "steps of two seconds";
}

TEST(Standstill, OfSeveralTheOneThatHasBeenLongestInItsPhase) {
  const Ranks ranks{{0, Phase::forward, 7, 0.1}, {1, Phase::backward, 7, 0.9}, {2, Phase::wait, 7, 0.8}};
  EXPECT_EQ(standstill_of(ranks, 3, true)->culprit->rank, 1);
}

TEST(Standstill, WhereAllWaitTheOneInAnEarlierStepHasStopped) {
  Ranks ranks{{0, Phase::wait, 8, 2}, {1, Phase::wait, 7, 2.01}, {2, Phase::wait, 8, 2}};
  EXPECT_EQ(standstill_of(ranks, 3, true)->culprit->rank, 1);
  EXPECT_FALSE(standstill_of(ranks, 3, false)->culprit) << "workers of an elastic job count differently";
  ranks[1].step = 8;
  EXPECT_FALSE(standstill_of(ranks, 3, true)->culprit);
}

TEST(Standstill, EvaluationsAndCheckpointsTakeTheirTime) {
  const Ranks ranks{{0, Phase::checkpoint, 7, 30}, {1, Phase::wait, 7, 30}};
  EXPECT_FALSE(standstill_of(ranks, 3, true));
  EXPECT_FALSE(standstill_of(Ranks{{0, Phase::forward, 7, 30}}, 3, true)) << "nobody waits";
  EXPECT_FALSE(standstill_of({}, 3, true));
}

}  // namespace
}  // namespace rueda
