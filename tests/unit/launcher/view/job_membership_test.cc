// SPDX-License-Identifier: Apache-2.0
// Ranks that come and go, as JobView tells of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

TEST(JobMembership, AWorkerThatCannotStartIsLost) {
  SimulatedJob job(2, nobody_is_late(), true);
  job.view.add_rank(2, 0);
  EXPECT_EQ(job.view.update(job.now())["line"]["state"], "starting");
  job.view.ended(2, true, "worker 2 cannot be started: no", job.now());
  EXPECT_EQ(job.view.update(job.now())["line"]["state"], "running");
  EXPECT_EQ(job.view.job()["lost"], 1);
}

}  // namespace
}  // namespace rueda
