// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "launcher/view/progress.h"
#include "tests/unit/launcher/view/simulated_job.h"

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

// Rank 2 waits for a model of the others, say, which they send now and then.
TEST(Standstill, IsNoneWhileOthersEndSteps) {
  Ranks ranks{{0, Phase::forward, 70, 0.01}, {1, Phase::data, 70, 0.02}, {2, Phase::wait, 0, 12}};
  EXPECT_TRUE(standstill_of(ranks, 30, true)) << "no rank has ended a step";
  ranks[0].since_step = ranks[1].since_step = 0.04;
  EXPECT_FALSE(standstill_of(ranks, 30, true));
  ranks[0].since_step = ranks[1].since_step = 0.7;
  EXPECT_EQ(standstill_of(ranks, 30, true)->seconds, 0.7);
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
  Ranks ranks{{0, Phase::checkpoint, 7, 30}, {1, Phase::wait, 7, 29}, {2, Phase::forward, 7, 0.01}};
  auto still = standstill_of(ranks, 3, true);
  ASSERT_TRUE(still && still->culprit);
  EXPECT_TRUE(still->is_pause && !still->is_stall);
  EXPECT_EQ(still->culprit->rank, 0);
  ranks[0].seconds = 61;
  still = standstill_of(ranks, 3, true);
  EXPECT_TRUE(still->is_pause && still->is_stall);
  UsualPauses pauses;
  for (const double seconds : {20, 40}) pauses.add(Phase::checkpoint, seconds);
  pauses.add(Phase::forward, 9000);
  EXPECT_EQ(pauses.limit(Phase::checkpoint), 300);
  EXPECT_EQ(pauses.limit(Phase::evaluation), 60) << "none so far";
  ranks[0].pauses = pauses;
  EXPECT_FALSE(standstill_of(ranks, 3, true)->is_stall) << "they take half a minute in this job";
  ranks[2].seconds = 20;
  still = standstill_of(ranks, 3, true);
  EXPECT_TRUE(still->is_stall && !still->is_pause) << "that rank does not save";
  EXPECT_EQ(still->culprit->rank, 2);
  EXPECT_FALSE(standstill_of(Ranks{{0, Phase::evaluation, 7, 30}, {1, Phase::evaluation, 7, 30}}, 3, true));
  EXPECT_FALSE(standstill_of(Ranks{{0, Phase::forward, 7, 30}}, 3, true)) << "nobody waits";
  EXPECT_FALSE(standstill_of({}, 3, true));
}

// Rank 0 has asked the others meanwhile, and has words of a stall.
TEST(Standstill, APauseIsToldWithoutAlarm) {
  SimulatedJob job(3, nobody_is_late());
  job.run(20);
  const std::string words = "'x' is not complete after 3.3 s; not submitted by: rank 2";
  nlohmann::json update;
  for (int second = 1; second <= 62; ++second) {
    job.later = std::chrono::seconds(second);
    for (const int rank : {0, 1, 2}) {
      agents::Observed news = job.of(rank, rank == 2 ? Phase::checkpoint : Phase::wait);
      news.step = 20;
      if (rank == 0 && second > 3) news.stall = words;
      job.view.hear(0, news, job.now());
    }
    update = job.view.update(job.now());
    const std::string text = update["line"]["text"];
    EXPECT_EQ(update["line"]["state"], second < 60 ? "waiting" : "stalled") << text;
    EXPECT_EQ(update["line"]["rank"], 2);
    EXPECT_EQ(update["line"].contains("pause"), second < 60) << "its mark is not red";
    EXPECT_EQ(has_event(update, "stall"), second == 60 || second == 62) << "by its length, and by the words";
    if (second == 4) {
      EXPECT_EQ(text,
                "waiting, step 20 of 1,000, 659 samples/s; the others wait for rank 2 (checkpoint, 4.0 s)");
    }
  }
  job.later = {};
  job.run(1);
  update = job.view.update(job.now());
  EXPECT_EQ(update["line"]["state"], "running");
}

// The wait goes on for the rest of that rank's step.
TEST(Standstill, TheStepAfterAPauseIsNoStall) {
  SimulatedJob job(3, nobody_is_late());
  job.run(20);
  const auto say = [&](int second, Phase phase) {
    job.later = std::chrono::seconds(second);
    for (const int rank : {0, 1, 2}) {
      agents::Observed news = job.of(rank, rank == 2 ? phase : Phase::wait);
      news.step = 20;
      if (rank == 2 && phase == Phase::forward) news.phase_since_ns += 12'000'000'000;
      job.view.hear(0, news, job.now());
    }
    return job.view.update(job.now())["line"]["state"];
  };
  for (int second = 1; second <= 12; ++second) EXPECT_EQ(say(second, Phase::checkpoint), "waiting") << second;
  EXPECT_EQ(say(13, Phase::forward), "waiting");
  EXPECT_EQ(say(16, Phase::forward), "waiting");
  EXPECT_EQ(say(18, Phase::forward), "stalled");
}

// Two process sets, each with its own rank 0.
TEST(Standstill, OfSeveralWordsTheOldestAreShown) {
  SimulatedJob job(3, nobody_is_late());
  job.run(20);
  const auto say = [&](int rank, const std::string& stall) {
    agents::Observed news = job.of(rank, Phase::forward);
    news.step = 20;
    news.stall = stall;
    job.view.hear(0, news, job.now());
    job.view.hear(0, agents::HostLoad{.now_ns = news.now_ns}, job.now());
    job.later += std::chrono::milliseconds(200);
    return job.view.update(job.now());
  };
  job.later += std::chrono::milliseconds(600);  // since the last step
  nlohmann::json update = say(1, "'even' waits");
  EXPECT_TRUE(has_event(update, "stall"));
  update = say(0, "'odd' waits");
  EXPECT_TRUE(has_event(update, "stall")) << "each is told once";
  EXPECT_TRUE(job.view.everything(job.now())["line"]["text"].get<std::string>().ends_with("; 'even' waits"));
  update = say(0, "");
  EXPECT_EQ(job.view.everything(job.now())["line"]["state"], "stalled") << "the other one goes on";
  EXPECT_EQ(say(1, "")["line"]["state"], "running");
}

}  // namespace
}  // namespace rueda
