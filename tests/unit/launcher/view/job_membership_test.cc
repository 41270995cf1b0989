// SPDX-License-Identifier: Apache-2.0
// Ranks that come and go, as JobView tells of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "launcher/view/job_view.h"
#include "launcher/view/status_text.h"
#include "tests/unit/launcher/view/simulated_job.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

TEST(JobMembership, CountsGenerationsJoinersAndSpares) {
  SimulatedJob job(2, nobody_is_late(), true);
  job.view.generation(0, {0, 1}, job.now());
  job.view.started(2, 0, 300);
  EXPECT_EQ(job.view.job()["spares"], 1);
  job.view.ended(1, true, "rank 1 was killed", job.now());
  job.view.generation(1, {0, 2}, job.now());
  const json facts = job.view.job();
  EXPECT_EQ(facts["spares"], 0);
  EXPECT_EQ(facts["joined"], 1);
  EXPECT_EQ(facts["generation"], 1);
  EXPECT_TRUE(has_event(job.view.update(job.now()), "joined"));
}

TEST(JobMembership, StepsGoOnInTheNextGeneration) {
  SimulatedJob job(2, nobody_is_late(), true);
  job.begin_generation(0, {0, 1});
  job.run(50);
  job.view.add_rank(2, 0);
  job.view.started(2, 0, 300);
  agents::Observed news = job.of(2, Phase::forward);
  news.samples_per_step = 1000;
  job.view.hear(0, news, job.now());
  const double before = job.view.update(job.now())["progress"]["samples_per_s"];
  EXPECT_NEAR(before, 2 * 8 / 0.0364, 10) << "a spare trains nothing";
  job.begin_generation(1, {1, 2});
  EXPECT_EQ(job.view.update(job.now())["progress"]["step"], 50) << "nobody of it has told anything";
  news = job.of(2, Phase::forward);
  news.step = 51;
  job.view.hear(0, news, job.now());
  EXPECT_EQ(job.view.update(job.now())["progress"]["step"], 51);
  EXPECT_EQ(job.view.status(job.now())["update"]["line"]["state"], "running");
}

// Worker 3 takes the place of worker 0, and is late.
TEST(JobMembership, WhoIsLateIsKnownInEveryGeneration) {
  SimulatedJob job(4, late(3, Phase::data, 60, 20), true);
  job.begin_generation(0, {0, 1, 2});
  job.run(60);
  EXPECT_EQ(job.view.update(job.now())["late"]["ranks"].size(), 3);
  job.view.ended(0, true, "rank 0 was killed", job.now());
  job.begin_generation(1, {1, 2, 3});
  json update = job.view.update(job.now());
  EXPECT_EQ(update["late"]["ranks"], json::array()) << "the analysis before is over";
  EXPECT_FALSE(job.view.everything(job.now()).contains("late"));
  EXPECT_EQ(update["line"]["text"].get<std::string>().find("waiting"), std::string::npos) << update["line"];
  job.run(40);
  job.later = 1s;
  update = job.view.update(job.now());
  ASSERT_EQ(update["late"]["ranks"].size(), 3);
  EXPECT_EQ(update["late"]["steps"], 34) << "without the first five";
  const json& worst = update["late"]["ranks"][0];
  EXPECT_EQ(worst["rank"], 2);
  EXPECT_EQ(worst["phase"], "data");
  EXPECT_NEAR(worst["late_ms"].get<double>(), 20, 1);
  EXPECT_EQ(update["late"]["what_if"][0]["rank"], 2);
  EXPECT_GT(update["late"]["what_if"][0]["faster_percent"], 30);
  const std::string line = update["line"]["text"];
  EXPECT_NE(line.find("waiting for rank 2 (worker 3) (data)"), std::string::npos) << line;
  EXPECT_NE(job.view.metrics().find("rueda_job_rank_late_seconds{rank=\"2\"} 0.0"), std::string::npos)
      << job.view.metrics();
  EXPECT_EQ(job.view.metrics().find("rank=\"3\""), std::string::npos);
}

TEST(JobMembership, SpansOfTheGenerationBeforeAreShownAndNotCompared) {
  SimulatedJob job(2, nobody_is_late(), true);
  job.begin_generation(0, {0, 1});
  agents::Observed old = job.of(0, Phase::wait);
  job.run(4);
  job.view.update(job.now());
  job.begin_generation(1, {0, 1});
  old.spans = {{Phase::wait, 4, old.now_ns, old.now_ns + 5'000'000}};
  job.view.hear(0, old, job.now());
  agents::Observed cut = job.of(1, Phase::forward);
  cut.spans = {{Phase::wait, 4, old.now_ns, cut.generation_since_ns}};
  job.view.hear(0, cut, job.now());
  EXPECT_EQ(job.view.update(job.now())["spans"].size(), 2);
  job.run(20);
  EXPECT_EQ(job.view.update(job.now() + 1s)["late"]["steps"], 14);
}

// Workers 0 and 1 are gone, worker 4 has never been in a generation.
TEST(JobMembership, EachPlaceNamesTheRankThatAWorkerHas) {
  SimulatedJob job(5, late(3, Phase::data, 0, 20), true);
  job.begin_generation(0, {0, 1, 2});
  job.run(30);
  for (const int worker : {0, 1}) job.view.ended(worker, true, "rank was killed", job.now());
  job.begin_generation(1, {2, 3});
  job.run(60);
  const json first = job.view.update(job.now());
  EXPECT_NE(first["line"]["text"].get<std::string>().find("waiting for rank 1 (worker 3) (data)"),
            std::string::npos)
      << first["line"];
  const json facts = job.view.job();
  ASSERT_EQ(facts["ranks"].size(), 2);
  EXPECT_EQ(facts["ranks"][0]["name"], "rank 0 (worker 2)");
  EXPECT_EQ(facts["ranks"][1]["rank"], 1);
  EXPECT_EQ(facts["spares"], 1);
  EXPECT_EQ(facts["lost"], 2);
  const json all = job.view.everything(job.now());
  EXPECT_EQ(all["late"]["ranks"][0]["rank"], 1);
  EXPECT_EQ(all["late"]["what_if"][0]["rank"], 1);
  job.later = 30s;
  job.say(2, Phase::wait);
  job.say(3, Phase::data);
  job.say(4, Phase::forward);
  const json still = job.view.update(job.now())["operations"];
  ASSERT_EQ(still.size(), 2) << still;
  EXPECT_EQ(still[0]["name"], "rank 0 (worker 2)");
  EXPECT_EQ(still[1]["rank"], 1);
  EXPECT_EQ(still[1]["name"], "rank 1 (worker 3)");
  const json status = job.view.status(job.now());
  EXPECT_EQ(status["ranks"][3]["rank"], 1);
  EXPECT_EQ(status["ranks"][3]["worker"], 3);
  EXPECT_EQ(status["ranks"][4]["name"], "worker 4, a spare");
  EXPECT_FALSE(status["ranks"][4].contains("rank"));
  EXPECT_EQ(status["ranks"][0]["name"], "worker 0") << "it is lost";
  const std::string text = status_text(status);
  EXPECT_NE(text.find("\n1 (worker 3)       h0"), std::string::npos) << text;
  EXPECT_NE(text.find("\nworker 4, a spare  h0"), std::string::npos) << text;
  const std::string metrics = job.view.metrics();
  EXPECT_NE(metrics.find("rueda_job_rank_step{rank=\"1\"} 90"), std::string::npos) << metrics;
  EXPECT_EQ(metrics.find("rank=\"2\""), std::string::npos) << metrics;
}

// Worker 1 is rank 0 when worker 0 is gone.
TEST(JobMembership, CurvesOfRank0GoOn) {
  SimulatedJob job(2, nobody_is_late(), true);
  job.begin_generation(0, {0, 1});
  const auto log = [&](int worker, std::uint64_t step, double value) {
    agents::Observed news = job.of(worker, Phase::forward);
    news.curves = {{"loss", {{step, value}}}};
    job.view.hear(0, news, job.now());
  };
  for (const int worker : {0, 1}) log(worker, 5, 0.5 + worker);
  job.view.ended(0, true, "rank 0 was killed", job.now());
  log(1, 6, 7);
  job.begin_generation(1, {1});
  log(1, 7, 0.25);
  const json scalars = job.view.update(job.now() + 10s)["scalars"];
  EXPECT_EQ(scalars.dump(), R"({"loss":[[5,0.5],[7,0.25]]})");
}

TEST(JobMembership, SparesAreNotWaitedFor) {
  SimulatedJob job(2, late(1, Phase::data, 0, 5), true);
  job.view.generation(0, {0, 1}, job.now());
  job.view.add_rank(2, 0);
  job.view.started(2, 0, 300);
  job.run(30);
  const json update = job.view.update(job.now());
  ASSERT_TRUE(update.contains("late")) << "at once";
  EXPECT_NEAR(update["late"]["ranks"][0]["late_ms"].get<double>(), 5, 0.5);
}

TEST(JobMembership, AWorkerThatEndsEarlyIsToldEvenAfterALoss) {
  SimulatedJob job(3, nobody_is_late(), true);
  job.begin_generation(0, {0, 1, 2});
  job.view.ended(0, true, "worker 0 was killed", job.now());
  job.begin_generation(1, {1, 2});
  job.view.ended(1, false, "worker 1 ended with status 0", job.now());
  EXPECT_FALSE(has_event(job.view.update(job.now() + 1s), "left")) << "all may end";
  const json update = job.view.update(job.now() + 3s);
  ASSERT_TRUE(has_event(update, "left"));
  EXPECT_EQ(update["events"].back()["text"], "worker 1 ended with status 0, while others ran on");
  job.view.ended(2, false, "worker 2 ended with status 0", job.now());
  EXPECT_FALSE(has_event(job.view.update(job.now() + 9s), "left")) << "it is the last one";
}

TEST(JobMembership, AWorkerThatCannotStartIsLost) {
  SimulatedJob job(2, nobody_is_late(), true);
  job.view.add_rank(2, 0);
  EXPECT_EQ(job.view.update(job.now())["line"]["state"], "starting");
  job.view.ended(2, true, "worker 2 cannot be started: no", job.now());
  EXPECT_EQ(job.view.update(job.now())["line"]["state"], "running");
  EXPECT_EQ(job.view.job()["lost"], 1);
}

std::vector<std::string> events_of(const JobView& view, JobView::Time now) {
  std::vector<std::string> list;
  const json all = view.everything(now);
  for (const json& event : all["events"])
    list.push_back(event["kind"].get<std::string>() + ": " + event["text"].get<std::string>());
  return list;
}

// Its samples have come to an end.
TEST(JobView, ARankThatLeavesTheOthersIsTheCauseOfWhatFollows) {
  SimulatedJob job(3, nobody_is_late());
  job.run(30);
  job.view.update(job.now());
  job.view.ended(1, false, "rank 1 (process 101 on h0) ended with status 0", job.now());
  job.later += 200ms;
  EXPECT_FALSE(has_event(job.view.update(job.now()), "left")) << "they may all end";
  agents::Observed news = job.of(2, Phase::wait);
  news.step = 30;
  job.view.hear(0, news, job.now());
  job.later += 800ms;
  job.view.ended(2, true, "rank 2 (process 102 on h0) ended with status 1", job.now());
  job.later += 80ms;
  job.view.ended(0, true, "rank 0 (process 100 on h0) ended with status 1", job.now());
  const json update = job.view.update(job.now());
  const std::string left = "rank 1 (process 101 on h0) ended with status 0, while ranks 0, 2 ran on";
  EXPECT_TRUE(update["line"]["text"].get<std::string>().ends_with(
      ": " + left + "; rank 2 (process 102 on h0) ended with status 1"))
      << update["line"];
  EXPECT_EQ(events_of(job.view, job.now())[0], "left: " + left);
  EXPECT_TRUE(events_of(job.view, job.now())[1].starts_with("lost: rank 2"));
}

TEST(JobView, ALossWithoutAWaitHasACauseOfItsOwn) {
  SimulatedJob job(3, nobody_is_late());
  job.run(30);
  job.view.ended(1, false, "rank 1 has ended", job.now());
  job.view.ended(2, false, "rank 2 has ended", job.now());
  agents::Observed news = job.of(0, Phase::checkpoint);
  news.step = 30;
  job.view.hear(0, news, job.now());
  job.later += 100ms;
  job.view.ended(0, true, "rank 0 was killed", job.now());
  const json update = job.view.update(job.now());
  EXPECT_TRUE(update["line"]["text"].get<std::string>().ends_with(": rank 0 was killed")) << update["line"];
  EXPECT_EQ(events_of(job.view, job.now())[0], "left: ranks 1-2 have ended, while rank 0 ran on")
      << "one event";
}

TEST(JobView, AFailureShortlyBeforeALossIsItsCause) {
  SimulatedJob job(3, nobody_is_late());
  job.run(30);
  for (const int rank : {2, 0}) {
    agents::Observed news = job.of(rank, Phase::other);
    news.step = 30;
    news.failure = "allreduce 'x': rank 1 shut down without it, while ranks 0, 2 asked for it.";
    news.failed_at_ns = news.now_ns;
    job.view.hear(0, news, job.now());
  }
  job.later += 1s;
  job.view.ended(0, true, "rank 0 was killed", job.now());
  EXPECT_TRUE(job.view.update(job.now())["line"]["text"].get<std::string>().ends_with(
      ": allreduce 'x': rank 1 shut down without it, while ranks 0, 2 asked for it; rank 0 was killed"));
  EXPECT_TRUE(events_of(job.view, job.now())[0].starts_with("error: ")) << "once";
  EXPECT_EQ(events_of(job.view, job.now()).size(), 2U);
}

TEST(JobView, AnOrdinaryEndIsNoEventUnlessOthersRunOn) {
  SimulatedJob job(3, nobody_is_late());
  job.run(30);
  job.view.ended(0, false, "rank 0 has ended", job.now());
  job.later += 1900ms;
  job.view.ended(1, false, "rank 1 has ended", job.now());
  EXPECT_FALSE(has_event(job.view.update(job.now()), "left"));
  job.later += 200ms;
  EXPECT_TRUE(has_event(job.view.update(job.now()), "left"));
  EXPECT_EQ(events_of(job.view, job.now()),
            std::vector<std::string>{"left: rank 0 has ended, while rank 2 ran on"});
  EXPECT_EQ(job.view.update(job.now())["line"]["state"], json()) << "that is no alarm";
  job.view.ended(2, false, "rank 2 has ended", job.now());
  job.view.job_ended(0, job.now());
  EXPECT_EQ(events_of(job.view, job.now()).size(), 1U);
  EXPECT_TRUE(has_event(job.view.update(job.now()), "end"));
  EXPECT_EQ(job.view.everything(job.now())["line"]["state"], "ended");
}

// Each rank ends a while after the one before, as after SIGTERM.
TEST(JobView, TheSpeedOfAJobThatEndsIsThatOfAllRanks) {
  SimulatedJob job(3, nobody_is_late());
  job.run(150);
  const json before = job.view.update(job.now())["progress"];
  EXPECT_GT(before["samples_per_s"].get<double>(), 0);
  for (const int rank : {0, 1, 2}) {
    job.view.ended(rank, false, "ended", job.now());
    job.silent.insert(rank);
    job.later += 50ms;
    job.run(2);
    job.view.update(job.now());
  }
  job.view.job_ended(143, job.now());
  const json after = job.view.everything(job.now())["progress"];
  EXPECT_EQ(after["samples_per_s"], before["samples_per_s"]);
  EXPECT_EQ(after["step_ms"], before["step_ms"]);
}

TEST(JobView, TheSpeedOfThoseThatGoOnIsTheirOwn) {
  SimulatedJob job(3, nobody_is_late());
  job.run(150);
  const json before = job.view.update(job.now())["progress"];
  job.view.ended(0, false, "ended", job.now());
  job.silent.insert(0);
  job.run(20);
  const json after = job.view.update(job.now())["progress"];
  EXPECT_NEAR(after["samples_per_s"].get<double>(), before["samples_per_s"].get<double>() * 2 / 3, 5);
}

TEST(JobView, TheSpeedOfAShortJobLeavesItsSlowStartOut) {
  SimulatedJob job(2, [](int, Phase phase, std::uint64_t step) {
    return phase == Phase::data && step < 5 ? 300 * SimulatedSteps::kMs : std::int64_t{0};
  });
  job.run(60);
  const json before = job.view.update(job.now())["progress"];
  EXPECT_NEAR(before["step_ms"].get<double>(), 36.4, 1);
  for (const int rank : {0, 1}) job.view.ended(rank, false, "ended", job.now());
  job.view.job_ended(0, job.now());
  const json after = job.view.everything(job.now())["progress"];
  EXPECT_EQ(after["step_ms"], before["step_ms"]);
  EXPECT_EQ(after["samples_per_s"], before["samples_per_s"]);
}

// The others wait for a rank that hangs until it is killed, and their wait ends by the loss.
TEST(JobView, AWaitForARankThatLeavesMovesNothing) {
  for (const int ranks : {2, 3})
    for (const bool is_heard_before : {false, true}) {
      SimulatedJob job(ranks, nobody_is_late());
      job.run(20);
      job.view.update(job.now());
      const std::int64_t begin = job.of(0, Phase::wait).now_ns;
      job.later = 4s;
      const auto lose = [&] { job.view.ended(1, true, "rank 1 was killed", job.now()); };
      if (!is_heard_before) lose();
      for (int rank = 0; rank < ranks; rank += 2) {
        agents::Observed news = job.of(rank, Phase::other);
        news.step = 20;
        news.phase_since_ns = news.now_ns;
        news.spans.push_back({Phase::wait, 20, begin + rank, news.now_ns});
        job.view.hear(0, news, job.now());
      }
      if (is_heard_before) lose();
      const json update = job.view.update(job.now());
      ASSERT_EQ(update["spans"].size(), ranks - 1);
      for (const json& span : update["spans"]) {
        EXPECT_EQ(span[1], "wait") << span;
        EXPECT_NEAR(span[4].get<double>() - span[3].get<double>(), 4, 1e-4);
      }
    }
}

TEST(JobView, AStatusTellsThePhasesOfRanksThatRun) {
  SimulatedJob job(3, nobody_is_late());
  job.run(3);
  job.later += 5s;
  agents::Observed news = job.of(2, Phase::data);
  news.step = 3;
  news.phase_since_ns = news.now_ns - 15'000'000;
  job.view.hear(0, news, job.now());
  job.later += 400ms;
  job.view.ended(0, true, "killed", job.now());
  json ranks = job.view.status(job.now())["ranks"];
  EXPECT_NEAR(ranks[2]["phase_for"].get<double>(), 0.015, 1e-6) << "not the age of the news";
  EXPECT_FALSE(ranks[1].contains("phase_for")) << "of that rank there is no news";
  EXPECT_EQ(ranks[1]["phase"], "forward");
  EXPECT_FALSE(ranks[0].contains("phase")) << "it is lost";
  job.view.hear(0, agents::HostLoad{.now_ns = news.now_ns + 300'000'000}, job.now());
  ranks = job.view.status(job.now())["ranks"];
  EXPECT_NEAR(ranks[2]["phase_for"].get<double>(), 0.415, 1e-3) << "its agent has seen nothing new";
}

TEST(JobView, AJobThatHasStepsKeepsThem) {
  SimulatedJob job(2, nobody_is_late());
  const auto say = [&](Phase phase) {
    for (const int rank : {0, 1}) {
      agents::Observed news = job.of(rank, phase);
      news.total_steps = 0;
      job.view.hear(0, news, job.now());
    }
    return job.view.update(job.now());
  };
  EXPECT_EQ(say(Phase::other)["line"]["text"], "running: 2 ranks without steps so far");
  EXPECT_EQ(say(Phase::data)["line"]["text"], "running, step 0");
  EXPECT_FALSE(say(Phase::other).contains("line"));
}

// As where a rank loads its data first, or is stuck there.
TEST(JobView, ARankThatTheOthersWaitForInInitIsNamed) {
  SimulatedJob job(4, nobody_is_late());
  const auto say = [&](std::set<int> called) {
    for (const int rank : {0, 1, 2, 3}) {
      agents::Observed news = job.of(rank, Phase::other);
      news.total_steps = 0;
      news.has_training = called.contains(rank);
      job.view.hear(0, news, job.now());
    }
    job.view.update(job.now());
    return job.view.everything(job.now())["line"]["text"];
  };
  EXPECT_EQ(say({}), "running: 4 ranks without steps so far") << "it may be no program of Rueda";
  EXPECT_EQ(say({0}), "starting: 1 of 4 ranks have called init(), ranks 1-3 have not");
  EXPECT_EQ(say({0, 1, 3}), "starting: 3 of 4 ranks have called init(), rank 2 has not");
  EXPECT_EQ(say({0, 1, 2, 3}), "running: 4 ranks without steps so far");
}

// A scraper refuses series that come twice.
TEST(JobView, EachSeriesComesOnce) {
  SimulatedJob job(2, nobody_is_late());
  agents::Observed news = job.of(0, Phase::forward);
  news.curves = {{"loss (rank 1)", {{1, 2.0}}}};
  job.view.hear(0, news, job.now());
  news = job.of(1, Phase::forward);
  news.curves = {{"loss", {{1, 3.0}}}};
  job.view.hear(0, news, job.now());
  std::set<std::string> series;
  std::istringstream lines(job.view.metrics());
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with('#')) EXPECT_TRUE(series.insert(line.substr(0, line.rfind(' '))).second) << line;
  EXPECT_TRUE(series.contains("rueda_job_scalar{tag=\"loss\",rank=\"1\"}"));
  EXPECT_TRUE(series.contains("rueda_job_scalar{tag=\"loss (rank 1)\",rank=\"0\"}"));
}

}  // namespace
}  // namespace rueda
