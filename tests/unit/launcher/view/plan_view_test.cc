// SPDX-License-Identifier: Apache-2.0
#include "launcher/view/plan_view.h"

#include <gmock/gmock.h>

#include <limits>

namespace rueda {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

CountedRoute route(std::uint32_t number, RouteKind kind, std::uint64_t plans, std::uint64_t each_ns) {
  return {number,
          std::move(kind),
          {.plans = plans,
           .tensors = 4 * plans,
           .bytes = 100 * plans,
           .nanoseconds = each_ns * plans,
           .fastest = each_ns - 1}};
}

const RouteKind kShort{.size_class = 10, .backend = "shm", .inside = "one-shot"};
const RouteKind kLong{.sent_as = Compression::fp16,
                      .size_class = 24,
                      .backend = "hierarchy-tcp",
                      .inside = "in place",
                      .between = "ring"};

agents::Observed news(std::int64_t at_ns, std::vector<CountedRoute> routes) {
  return {.now_ns = at_ns,
          .has_training = true,
          .settings = {.fusion_threshold = 64 << 20,
                       .linger = 1'000'000,
                       .chunk_bytes = 256 << 10,
                       .route_bytes = std::numeric_limits<std::int64_t>::max()},
          .routes = std::move(routes)};
}

TEST(PlanView, RanksAddUpByKindAndTheMostTimeComesFirst) {
  RankPlans first, second;
  first.hear(news(kSecond, {route(0, kShort, 10, 1'000), route(1, kLong, 5, 100'000)}));
  second.hear(news(kSecond, {route(0, kLong, 5, 300'000)}));
  const json plan = plan_as_json({&first, &second});
  ASSERT_EQ(plan["routes"].size(), 2U);
  const json& most = plan["routes"][0];
  EXPECT_EQ(most["route"], "shared memory, in place and TCP, ring");
  EXPECT_EQ(most["size"], "16 MiB");
  EXPECT_EQ(most["sent_as"], "fp16");
  EXPECT_EQ(most["ranks"], 2);
  EXPECT_EQ(most["plans"], 10);
  EXPECT_EQ(most["tensors"], 40);
  EXPECT_EQ(most["mean_us"], 200.0);
  EXPECT_EQ(most["fastest_us"], 99.999);
  EXPECT_FALSE(most.contains("predicted_us")) << "there is no model";
  EXPECT_FALSE(most.contains("per_s")) << "one look tells no speed";
  EXPECT_EQ(plan["routes"][1]["route"], "shared memory, one-shot");
  EXPECT_EQ(plan["routes"][1]["ranks"], 1);
  EXPECT_EQ(plan["settings"]["cycle_ms"], 1.0);
  EXPECT_FALSE(plan["settings"].contains("route_bytes")) << "all take the first backend";
}

TEST(PlanView, RecentPlansAreThoseOfTheLastSeconds) {
  RankPlans rank;
  for (int second = 0; second <= 30; ++second) {
    const auto plans = static_cast<std::uint64_t>(10 * second);
    const std::uint64_t nanoseconds = second < 15 ? 1'000 : 9'000;
    CountedRoute told = route(0, kShort, plans + 1, nanoseconds);
    if (second >= 15) told.count.nanoseconds = 1'000 * 151 + 9'000 * (plans - 150);
    rank.hear(news(second * kSecond, {told}));
  }
  json entry = plan_as_json({&rank})["routes"][0];
  EXPECT_NEAR(entry["per_s"].get<double>(), 10, 0.1);
  EXPECT_NEAR(entry["recent_us"].get<double>(), 9, 0.1);
  EXPECT_NEAR(entry["mean_us"].get<double>(), 5, 0.1);
  rank.hear(news(40 * kSecond, {}));
  entry = plan_as_json({&rank})["routes"][0];
  EXPECT_FALSE(entry.contains("per_s")) << "nothing has moved for a while";
  EXPECT_EQ(entry["plans"], 301);
}

TEST(PlanView, SeveralRoutesOfOneKindAddTheirSpeeds) {
  RankPlans rank;
  for (const std::uint64_t second : {1, 3}) {
    CountedRoute world = route(0, kShort, 10 * second, 1'000), group = route(1, kShort, 10 * second, 1'000);
    world.count.predicted_plans = second;
    world.count.predicted = second * second * 1'000;
    rank.hear(news(static_cast<std::int64_t>(second) * kSecond, {world, group}));
  }
  const json entry = plan_as_json({&rank})["routes"][0];
  EXPECT_EQ(entry["ranks"], 1);
  EXPECT_EQ(entry["plans"], 60);
  EXPECT_EQ(entry["per_s"], 20.0);
  EXPECT_EQ(entry["predicted_us"], 3.0);
  EXPECT_EQ(entry["recent_predicted_us"], 4.0);
}

TEST(PlanView, APageOfAnotherProcessBeginsAnew) {
  RankPlans rank;
  rank.hear(news(kSecond, {route(0, kShort, 100, 1'000)}));
  rank.hear(news(2 * kSecond, {route(0, kShort, 3, 1'000)}));
  EXPECT_EQ(plan_as_json({&rank})["routes"][0]["plans"], 3);
  EXPECT_FALSE(plan_as_json({&rank})["routes"][0].contains("per_s"));
}

TEST(PlanView, SaysPredictionsAndTheTuner) {
  RankPlans rank;
  CountedRoute told = route(0, kLong, 8, 150'000);
  told.count.predicted_plans = 4;
  told.count.predicted = 4 * 120'000;
  agents::Observed message = news(kSecond, {told});
  message.settings.is_tuned = true;
  message.settings.tuner_samples = 12;
  message.settings.tuner_words = "keeps the defaults";
  message.settings.route_bytes = 1 << 20;
  rank.hear(message);
  const json plan = plan_as_json({&rank});
  EXPECT_EQ(plan["routes"][0]["predicted_us"], 120.0);
  EXPECT_EQ(plan["settings"]["route_bytes"], 1 << 20);
  const std::string text = plan_text(plan);
  EXPECT_THAT(text, HasSubstr("second backend above 1048576 bytes; tuned, 12 samples: keeps the defaults\n"));
  EXPECT_THAT(text, HasSubstr("<= 16 MiB"));
  EXPECT_THAT(text, HasSubstr("shared memory, in place and TCP, ring, as fp16"));
  EXPECT_THAT(text, HasSubstr("150 us"));
  EXPECT_THAT(text, HasSubstr("120 us"));
}

TEST(PlanView, NothingWithoutAJobOfRueda) {
  const RankPlans rank;
  EXPECT_TRUE(plan_as_json({&rank}).is_null());
}

TEST(PlanView, RoutesInWords) {
  const auto words = [](const char* backend, const char* inside, const char* between) {
    return route_in_words({.backend = backend, .inside = inside, .between = between});
  };
  EXPECT_EQ(words("tcp", "", "recursive doubling"), "TCP, recursive doubling");
  EXPECT_EQ(words("mpi", "", "tree"), "MPI, tree");
  EXPECT_EQ(words("local", "alone", ""), "this rank alone");
  EXPECT_EQ(words("cuda-alone", "alone", ""), "this rank alone");
  EXPECT_EQ(words("hierarchy-mpi", "staged", "ring"), "shared memory, staged and MPI, ring");
  EXPECT_EQ(words("cuda-hierarchy-tcp", "staged", "ring"),
            "through the host, shared memory, staged and TCP, ring");
  EXPECT_EQ(words("cuda-shm", "staged", ""), "through the host, shared memory, staged");
  EXPECT_EQ(words("nccl-tcp", "", "NCCL"), "NCCL");
  EXPECT_EQ(words("nccl-tcp", "", "ring"), "through the host, TCP, ring") << "NCCL could not connect them";
  EXPECT_EQ(words("nccl-hierarchy-tcp", "NCCL", "ring"), "NCCL and TCP, ring");
  EXPECT_EQ(words("nccl-hierarchy-tcp", "", "ring"), "through the host, TCP, ring") << "neither here";
  EXPECT_EQ(words("other", "", ""), "other");
}

TEST(PlanView, SizesInWords) {
  EXPECT_EQ(size_in_words(0), "1 B");
  EXPECT_EQ(size_in_words(9), "512 B");
  EXPECT_EQ(size_in_words(12), "4 KiB");
  EXPECT_EQ(size_in_words(63), "8 EiB");
}

}  // namespace
}  // namespace rueda
