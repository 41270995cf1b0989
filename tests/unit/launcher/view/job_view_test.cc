// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/job_view.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "launcher/view/status_text.h"
#include "tests/unit/launcher/view/simulated_job.h"

namespace rueda {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

TEST(JobView, NamesAPlantedStraggler) {
  SimulatedJob job(4, late(3, Phase::data, 120, 8));
  job.run(299);
  EXPECT_FALSE(has_event(job.view.update(job.now()), "straggler")) << "the next look may differ";
  job.later += 600ms;
  job.run(1);
  const json update = job.view.update(job.now());
  EXPECT_EQ(update["line"]["state"], "running");
  const std::string text = update["line"]["text"];
  EXPECT_NE(text.find("step 300 of 1,000"), std::string::npos) << text;
  EXPECT_NE(text.find("waiting for rank 3 (data)"), std::string::npos) << text;
  EXPECT_NEAR(update["progress"]["step_ms"].get<double>(), 44.4, 0.5);
  EXPECT_NEAR(update["progress"]["samples_per_s"].get<double>(), 4 * 8 / 0.0444, 10);
  const json& late = update["late"]["ranks"][0];
  EXPECT_EQ(late["rank"], 3);
  EXPECT_EQ(late["phase"], "data");
  EXPECT_NEAR(late["since_step"].get<double>(), 120, 2);
  EXPECT_NEAR(late["since"].get<double>(), 120 * 0.0364, 0.5);
  EXPECT_EQ(update["late"]["what_if"][0]["rank"], 3);
  EXPECT_NEAR(update["late"]["what_if"][0]["faster_percent"].get<double>(), 100 * (44.4 / 36.4 - 1), 1);
  EXPECT_TRUE(has_event(update, "straggler"));
  EXPECT_NE(update["events"][0]["text"].get<std::string>().find("rank 3 on h0 is late since step 120: 8."),
            std::string::npos)
      << update["events"];
  EXPECT_FALSE(has_event(job.view.everything(job.now()), "lost"));
}

// Steps of 36 ms take 336 ms now.
TEST(JobView, SpeedAndLatenessAreOfTheSameSteps) {
  SimulatedJob job(2, late(1, Phase::forward, 80, 300));
  for (int look = 0; look < 40; ++look) {
    job.run(5);
    const json update = job.view.update(job.now());
    if (!update["line"].contains("rank")) continue;
    EXPECT_NEAR(update["progress"]["step_ms"].get<double>(), 336.4, 5) << update["line"];
    EXPECT_NEAR(update["progress"]["ends_at"].get<double>(),
                1000 + std::chrono::duration<double>(job.now() - kViewBegin).count() +
                    (1000 - update["progress"]["step"].get<double>()) * 0.3364,
                6);
    const bool is_sudden = update["progress"]["step"] <= 90;  // no what-if yet
    EXPECT_EQ(update["late"]["what_if"].empty(), is_sudden);
    if (is_sudden) continue;
    EXPECT_NEAR(update["late"]["what_if"][0]["faster_percent"].get<double>(), 100 * 300 / 36.4, 25);
  }
  EXPECT_NE(job.view.status(job.now())["update"]["line"]["text"].get<std::string>().find("300.0 ms a step"),
            std::string::npos)
      << job.view.status(job.now())["update"]["line"];
}

TEST(JobView, TellsWhatIsNewOnceAndAllToThoseWhoComeLater) {
  SimulatedJob job(2, nobody_is_late());
  job.run(3);
  const json first = job.view.update(job.now());
  EXPECT_EQ(first["spans"].size(), 2 * 3 * 5 + 3) << "each wait of the first to come is split";
  EXPECT_TRUE(job.view.update(job.now()).is_null());
  job.run(1);
  EXPECT_LT(job.view.update(job.now())["spans"].size(), 13);
  EXPECT_GT(job.view.everything(job.now())["spans"].size(), 40);
  EXPECT_TRUE(job.view.take_job_changed());
  EXPECT_FALSE(job.view.take_job_changed());
}

TEST(JobView, TellsWhoStopsAJobThatStandsStill) {
  SimulatedJob job(3, nobody_is_late());
  job.run(20);
  job.view.update(job.now());
  job.later += 700ms;
  for (const int rank : {0, 1, 2}) job.say(rank, rank == 1 ? Phase::backward : Phase::wait);
  const json first = job.view.update(job.now());
  EXPECT_EQ(first["line"]["state"], "waiting");
  EXPECT_EQ(first["line"]["rank"], 1);
  EXPECT_NE(first["line"]["text"].get<std::string>().find(
                "no step for 0.7 s, the others wait for rank 1 (backward)"),
            std::string::npos)
      << first["line"];
  EXPECT_EQ(first["operations"].size(), 3);
  EXPECT_FALSE(has_event(first, "stall"));
  job.later -= 700ms;
  for (int second = 0; second < 8; ++second) {
    job.later += 1s;
    job.say(0, Phase::wait);
    job.say(1, Phase::backward);
    job.say(2, Phase::wait);
    const json update = job.view.update(job.now());
    EXPECT_EQ(has_event(update, "stall"), second == 4) << second;
  }
  const json status = job.view.status(job.now());
  EXPECT_EQ(status["update"]["line"]["state"], "stalled");
  EXPECT_NE(status["update"]["line"]["text"].get<std::string>().find("wait for rank 1 (backward)"),
            std::string::npos);
  EXPECT_NEAR(status["ranks"][1]["phase_for"].get<double>(), 8, 0.1);
  job.run(1);
  EXPECT_EQ(job.view.update(job.now())["line"]["state"], "running");
}

// Of a program without marks; rank 0 has asked all ranks.
TEST(JobView, WordsOfOperationsThatWaitAreAStall) {
  SimulatedJob job(3, nobody_is_late());
  const std::string words = "'x' is not complete after 3.3 s.; not submitted by: rank 2";
  const auto say = [&](const std::string& stall) {
    job.view.hear(0, {.rank = 0, .now_ns = kViewBeginNs, .has_training = true, .stall = stall}, job.now());
    return job.view.update(job.now());
  };
  EXPECT_EQ(say("")["line"]["state"], "running");
  const json update = say(words);
  EXPECT_EQ(update["line"]["state"], "stalled");
  EXPECT_EQ(update["line"]["text"], "stalled; " + words);
  ASSERT_TRUE(has_event(update, "stall"));
  EXPECT_EQ(update["events"][0]["text"], words);
  EXPECT_TRUE(say(words).is_null()) << "once";
  EXPECT_EQ(say("")["line"]["state"], "running") << "it is over";
}

// They are of the time at which somebody has watched.
TEST(JobView, OldNewsAreNoStall) {
  SimulatedJob job(2, nobody_is_late());
  job.run(20);
  job.say(0, Phase::wait);
  job.later += 60s;
  EXPECT_EQ(job.view.update(job.now())["line"]["state"], "running");
}

TEST(JobView, AHealthyJobBlamesNobody) {
  for (const int ranks : {2, 3, 8}) {
    SimulatedJob job(ranks, [](int rank, Phase phase, std::uint64_t step) {
      const auto pauses = (step * 2654435761U + static_cast<unsigned>(rank) * 40503U) % 97 == 0;
      return phase == Phase::forward && pauses ? 60 * SimulatedSteps::kMs : std::int64_t{0};
    });
    for (int look = 0; look < 60; ++look) {
      job.run(20);
      const json update = job.view.update(job.now());
      EXPECT_EQ(update["line"]["text"].get<std::string>().find("for rank"), std::string::npos)
          << update["line"];
      EXPECT_EQ(update["late"]["what_if"], json::array());
      EXPECT_FALSE(has_event(update, "straggler"));
    }
  }
}

TEST(JobView, AnEvaluationIsNoStall) {
  SimulatedJob job(2, nobody_is_late());
  job.run(20);
  for (int second = 0; second < 9; ++second) {
    job.say(0, Phase::evaluation);
    job.say(1, Phase::wait);
    EXPECT_FALSE(has_event(job.view.update(job.now()), "stall"));
    job.later += 1s;
  }
}

TEST(JobView, ALostRankIsTheStateOfTheJobUnlessItIsElastic) {
  for (const bool elastic : {false, true}) {
    SimulatedJob job(2, nobody_is_late(), elastic);
    job.run(3);
    job.view.ended(1, true, "rank 1 was killed", job.now());
    const json update = job.view.update(job.now());
    EXPECT_TRUE(has_event(update, "lost"));
    EXPECT_EQ(update["line"]["state"], elastic ? "running" : "lost");
    EXPECT_EQ(job.view.job()["lost"], 1);
    EXPECT_EQ(job.view.job()["ranks"][1]["state"], "lost");
    job.view.ended(0, false, "rank 0 has ended", job.now());
    job.view.job_ended(0, job.now());
    EXPECT_EQ(job.view.everything(job.now())["line"]["state"], elastic ? "ended" : "lost");
  }
}

// Each message comes faster than the one before, so that the host's clock is known better each time.
TEST(JobView, FasterMessagesMakeNobodyLate) {
  JobView view({.command = "train", .started_at = 1000, .started = kViewBegin});
  view.add_host("h0");
  for (const int rank : {0, 1}) {
    view.add_rank(rank, 0);
    view.started(rank, 0, 100 + rank);
  }
  SimulatedSteps steps(2, nobody_is_late(), 0);
  auto delay = 400ms;
  JobView::Time now{};
  for (int step = 0; step < 15; ++step) {
    const auto spans = steps.next();
    for (int rank = 0; rank < 2; ++rank, delay -= 10ms) {
      agents::Observed news{.rank = rank, .now_ns = kViewBeginNs + steps.now(), .has_training = true};
      for (const RankSpan& span : spans[static_cast<std::size_t>(rank)])
        news.spans.push_back(
            {span.phase, span.step, kViewBeginNs + span.begin_ns, kViewBeginNs + span.end_ns});
      now = kViewBegin + std::chrono::nanoseconds(steps.now()) + delay;
      view.hear(0, news, now);
    }
  }
  const json late = view.update(now)["late"];
  EXPECT_EQ(late["steps"], 14 - 5) << "the first steps do not count";
  for (const json& rank : late["ranks"]) EXPECT_EQ(rank["late_ms"], 0) << late;
}

// The clock of host 1 is 5000 s ahead. Rank 0 is on host 0, then on host 1.
TEST(JobView, FollowsTheClockOfRank0) {
  constexpr std::int64_t kAhead = 5'000'000'000'000;
  JobView view({.command = "train", .started_at = 1000, .started = kViewBegin, .elastic = true});
  const std::vector<int> hosts{0, 1, 0};
  for (const char* name : {"h0", "h1"}) view.add_host(name);
  for (int worker = 0; worker < 3; ++worker) {
    view.add_rank(worker, hosts[static_cast<std::size_t>(worker)]);
    view.started(worker, hosts[static_cast<std::size_t>(worker)], 100 + worker);
  }
  SimulatedSteps steps(3, late(2, Phase::data, 0, 7), 0);
  const auto now = [&] { return kViewBegin + std::chrono::nanoseconds(steps.now()); };
  const auto run = [&](int count, int first, int rank_0_on) {
    for (int i = 0; i < count; ++i) {
      const auto spans = steps.next();
      for (int worker = first; worker < 3; ++worker) {
        const int host = hosts[static_cast<std::size_t>(worker)];
        const std::int64_t clock = kViewBeginNs + host * kAhead;
        agents::Observed news{.rank = worker,
                              .now_ns = clock + steps.now(),
                              .clock_offset_ns = (rank_0_on - host) * kAhead,
                              .has_training = true,
                              .generation = static_cast<std::uint64_t>(first)};
        for (const RankSpan& span : spans[static_cast<std::size_t>(worker)])
          news.spans.push_back({span.phase, span.step, clock + span.begin_ns, clock + span.end_ns});
        view.hear(host, news, now());
      }
    }
  };
  const auto check = [&](int ranks) {
    const json update = view.update(now());
    EXPECT_EQ(update["late"]["ranks"].size(), ranks);
    EXPECT_EQ(update["late"]["ranks"][0]["rank"], ranks - 1);
    EXPECT_NEAR(update["late"]["ranks"][0]["late_ms"].get<double>(), 7, 0.1);
    for (const json& span : update["spans"]) {
      EXPECT_GE(span[3].get<double>(), 0) << span;
      EXPECT_LE(span[4].get<double>(), 1e-9 * static_cast<double>(steps.now()) + 1e-5) << span;
    }
  };
  view.generation(0, {0, 1, 2}, now());
  run(20, 0, 0);
  check(3);
  view.ended(0, true, "rank 0 was killed", now());
  view.generation(1, {1, 2}, now());
  run(20, 1, 1);
  check(2);
}

TEST(JobView, ARankThatStandsInAPhaseIsShown) {
  SimulatedJob job(2, nobody_is_late());
  job.run(20);
  job.say(1, Phase::data);
  EXPECT_FALSE(job.view.update(job.now()).contains("operations"));
  const double since = 1e-9 * static_cast<double>((job.now() - kViewBegin).count());
  json open;
  for (const auto later : {1s, 4s, 7s}) {
    job.later = later;
    job.say(1, Phase::data);
    const json update = job.view.update(job.now());
    const auto found = std::ranges::find_if(update["spans"], [](const json& span) { return span[0] == 1; });
    ASSERT_NE(found, update["spans"].end());
    EXPECT_EQ((*found)[1], "data");
    EXPECT_EQ((*found)[2], 20);
    EXPECT_NEAR((*found)[3].get<double>(), since, 2e-5);
    EXPECT_NEAR((*found)[4].get<double>(), since + static_cast<double>(later.count()), 2e-5);
    if (!open.is_null()) EXPECT_EQ((*found)[3], open[3]) << "the page knows it by its beginning";
    open = *found;
    EXPECT_EQ(update.contains("operations"), later == 7s);
    if (later != 7s) continue;
    const json still{{"rank", 1}, {"name", "rank 1"}, {"activity", "data for 7.0 s"}};
    EXPECT_TRUE(std::ranges::count(update["operations"], still) == 1) << update["operations"];
    EXPECT_EQ(job.view.everything(job.now())["operations"], update["operations"]);
  }
  job.later = 0s;
  for (const int rank : {0, 1}) job.say(rank, Phase::forward);
  EXPECT_EQ(job.view.update(job.now())["operations"], json::array()) << "all move again";
}

TEST(JobView, AFailedOperationIsTheStateUntilAStepEnds) {
  SimulatedJob job(3, nobody_is_late());
  job.run(50);
  const std::int64_t failed_at_ns = job.of(0, Phase::forward).now_ns;
  const auto say = [&](std::uint64_t steps, bool is_stuck) {
    for (const int rank : {0, 1, 2}) {
      agents::Observed news = job.of(rank, is_stuck && rank != 2 ? Phase::wait : Phase::forward);
      news.step = steps;
      if (rank != 2) news.failure = "allreduce 'x' has other shapes";
      if (rank != 2) news.failed_at_ns = failed_at_ns;
      job.view.hear(0, news, job.now());
    }
    job.view.update(job.now());
    return job.view.everything(job.now())["line"]["text"].get<std::string>();
  };
  const std::string failed = "failed, step 50 of 1,000, 660 samples/s: allreduce 'x' has other shapes";
  EXPECT_EQ(say(50, true), failed);
  job.later = 1s;
  EXPECT_EQ(say(50, true), failed) << "before the wait";
  EXPECT_TRUE(say(51, false).starts_with("running")) << "the program goes on";
  EXPECT_EQ(say(50, true), failed);
  job.later = 11s;
  EXPECT_TRUE(say(50, true).starts_with("stalled")) << "that was long ago";
}

TEST(JobView, AFailureOfLongAgoIsNoNewsToWhoLooksNow) {
  SimulatedJob job(2, nobody_is_late());
  job.run(50);
  const auto say = [&](std::chrono::nanoseconds ago) {
    agents::Observed news = job.of(0, Phase::forward);
    news.step = 50;
    news.failure = "allreduce 'x' has other shapes";
    news.failed_at_ns = news.now_ns - ago.count();
    job.view.hear(0, news, job.now());
    job.view.update(job.now());
    return job.view.everything(job.now())["line"]["text"].get<std::string>();
  };
  EXPECT_TRUE(say(20s).starts_with("running"));
  EXPECT_TRUE(say(9s).starts_with("failed, step 50")) << "the same words of a later failure";
}

TEST(JobView, TheEndIsAmongTheLastEvents) {
  SimulatedJob job(1, nobody_is_late(), true);
  job.view.generation(0, {0}, job.now());
  for (int worker = 1; worker < 700; ++worker) {
    job.view.started(worker, 0, 1000 + worker);
    job.view.ended(worker, true, "worker was killed", job.now());
    if (worker % 7 == 0) job.view.update(job.now());
  }
  job.view.ended(0, false, "rank 0 has ended", job.now());
  job.view.job_ended(0, job.now());
  const json update = job.view.update(job.now());
  EXPECT_TRUE(has_event(update, "end"));
  EXPECT_EQ(update["events"].size(), 699 % 7 + 1) << "each once";
  EXPECT_EQ(job.view.everything(job.now())["events"].size(), 500);
}

TEST(JobView, ATotalBeyondAllTimesHasNoEnd) {
  SimulatedJob job(2, nobody_is_late());
  job.run(20);
  EXPECT_TRUE(job.view.update(job.now())["progress"].contains("ends_at"));
  for (const int rank : {0, 1})
    job.view.hear(0,
                  {.rank = rank,
                   .now_ns = kViewBeginNs,
                   .has_training = true,
                   .step = 20,
                   .total_steps = INT64_MAX,
                   .phase = Phase::forward,
                   .phase_since_ns = kViewBeginNs},
                  job.now());
  const json update = job.view.update(job.now());
  EXPECT_EQ(update["progress"]["total"], INT64_MAX);
  EXPECT_FALSE(update["progress"].contains("ends_at"));
  EXPECT_EQ(update["line"]["text"].get<std::string>().find("ends"), std::string::npos) << update["line"];
}

TEST(JobView, ARankMaySayAnything) {
  SimulatedJob job(2, nobody_is_late());
  agents::Observed news{.rank = 7, .has_training = true};
  job.view.hear(0, news, job.now());
  news = {.rank = 1, .now_ns = INT64_MIN, .clock_offset_ns = INT64_MAX, .has_training = true};
  job.view.hear(0, news, job.now());
  news = {.rank = 1,
          .has_training = true,
          .step = UINT64_MAX,
          .total_steps = UINT64_MAX,
          .samples_per_step = UINT64_MAX};
  news.spans = {
      {Phase::wait, 1, INT64_MIN, INT64_MAX}, {Phase::data, UINT64_MAX, 5, 4}, {Phase::wait, 1, 3, 4}};
  news.curves = {{"\xff\xfe", {{1, std::numeric_limits<double>::quiet_NaN()}}}};
  job.view.hear(0, news, job.now());
  job.view.hear(5, agents::HostLoad{}, job.now());
  const json update = job.view.update(job.now() + 10s);
  EXPECT_FALSE(update.dump(-1, ' ', false, json::error_handler_t::replace).empty());
  EXPECT_FALSE(job.view.metrics().empty());
}

TEST(JobView, RatesOfCardsComeFromTwoReadings) {
  SimulatedJob job(1, nobody_is_late());
  agents::HostLoad load{
      .now_ns = kViewBeginNs, .cores = 2, .busy = 0.5, .memory_bytes = 100, .memory_used = 10};
  load.cards = {{"eth0", 1000, 2000, 25e6}};
  job.view.hear(0, load, job.now());
  load.now_ns += 500'000'000;
  load.cards[0].sent_bytes += 5000;
  job.view.hear(0, load, job.now());
  const json update = job.view.update(job.now());
  EXPECT_EQ(update["hosts"][0]["cards"][0]["sent_per_s"], 10'000);
  EXPECT_EQ(update["hosts"][0]["cards"][0]["received_per_s"], 0);
  EXPECT_EQ(job.view.job()["hosts"][0]["cards"][0]["limit_bytes_per_s"], 25e6);
  EXPECT_NE(job.view.metrics().find("rueda_card_sent_bytes_total{host=\"h0\",card=\"eth0\"} 6000"),
            std::string::npos);
}

TEST(StatusText, HasALineATableAndTheEvents) {
  SimulatedJob job(2, late(1, Phase::forward, 0, 8));
  job.run(150);
  job.view.ended(0, true, "rank 0 was\x1b[2J killed", job.now());
  job.view.update(job.now());
  const std::string text = status_text(job.view.status(job.now()));
  EXPECT_NE(text.find("rank  host  process  state"), std::string::npos) << text;
  EXPECT_NE(text.find("1     h0    101      running  150   forward for 0.0 s"), std::string::npos) << text;
  EXPECT_NE(text.find("faster without the lateness of rank 1"), std::string::npos) << text;
  EXPECT_NE(text.find("lost: rank 0 was?[2J killed"), std::string::npos) << text;
}

agents::Observed plans_of(int rank, std::uint64_t plans, std::int64_t at_ns) {
  CountedRoute route{.kind = {.size_class = 4, .backend = "tcp", .between = "ring"},
                     .count = {.plans = plans, .tensors = 2 * plans, .bytes = 16, .nanoseconds = 2'000'000}};
  return {.rank = rank,
          .now_ns = kViewBeginNs + at_ns,
          .has_training = true,
          .settings = {.fusion_threshold = static_cast<std::uint64_t>(64 + rank)},
          .routes = {route}};
}

TEST(JobView, PlansAreToldOnceASecond) {
  SimulatedJob job(2, nullptr);
  JobView& view = job.view;
  view.update(kViewBegin);
  view.hear(0, plans_of(1, 4, 0), kViewBegin);
  view.hear(0, plans_of(0, 6, 0), kViewBegin);
  json update = view.update(kViewBegin + 1s);
  ASSERT_EQ(update["plan"]["routes"].size(), 1U);
  EXPECT_EQ(update["plan"]["routes"][0]["plans"], 10);
  EXPECT_EQ(update["plan"]["settings"]["fusion_threshold"], 64) << "rank 0 decides";
  view.hear(0, plans_of(0, 8, 200'000'000), kViewBegin + 1200ms);
  EXPECT_FALSE(view.update(kViewBegin + 1200ms).contains("plan"));
  update = view.update(kViewBegin + 2100ms);
  EXPECT_EQ(update["plan"]["routes"][0]["plans"], 12);
  EXPECT_FALSE(view.update(kViewBegin + 4s).contains("plan")) << "nothing is new";
  EXPECT_EQ(view.everything(kViewBegin + 4s)["plan"]["routes"][0]["plans"], 12);
  const std::string labels =
      "{operation=\"allreduce\",dtype=\"float32\",most_bytes=\"16\",backend=\"tcp\",inside=\"\",between="
      "\"ring\","
      "sent_as=\"none\"}";
  EXPECT_NE(view.metrics().find("rueda_job_route_plans_total" + labels + " 12\n"), std::string::npos);
  EXPECT_NE(view.metrics().find("rueda_job_route_seconds_total" + labels + " 0.004\n"), std::string::npos);
  EXPECT_NE(status_text(view.status(kViewBegin + 4s)).find("TCP, ring"), std::string::npos);
}

TEST(JobView, GpusOfAHostAreTold) {
  SimulatedJob job(1, nullptr);
  const GpuLoad gpu{
      .name = "H200", .busy_percent = 40, .memory_bytes = 3ULL << 30, .memory_used = 1ULL << 30};
  job.view.hear(0, agents::HostLoad{.gpus = {gpu}}, kViewBegin);
  const json told = job.view.update(kViewBegin)["hosts"][0]["gpus"];
  EXPECT_EQ(told, json::parse(
                      R"([{"name":"H200","busy":0.4,"memory_bytes":3221225472,"memory_used":1073741824}])"));
  EXPECT_NE(job.view.metrics().find("rueda_gpu_busy_ratio{host=\"h0\",gpu=\"0\"} 0.4\n"), std::string::npos);
  EXPECT_EQ(job.view.metrics().find("rueda_gpu_temperature_celsius"), std::string::npos) << "it is not known";
  EXPECT_NE(status_text(job.view.status(kViewBegin)).find("h0, GPU 0 (H200): 1.0 of 3.0 GiB, 40 % busy\n"),
            std::string::npos);
}

TEST(JobView, EveryRankOfManyIsInTheList) {
  SimulatedJob job(40, late(33, Phase::data, 0, 20));
  job.run(60);
  const json late_ones = job.view.update(job.now())["late"];
  EXPECT_EQ(late_ones["ranks"].size(), 40);
  EXPECT_EQ(late_ones["ranks"][0]["rank"], 33);
  EXPECT_EQ(late_ones["what_if"].size(), 1);
  EXPECT_NE(job.view.metrics().find("rueda_job_rank_late_seconds{rank=\"39\"}"), std::string::npos);
}

}  // namespace
}  // namespace rueda
