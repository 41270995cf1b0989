// SPDX-License-Identifier: Apache-2.0
// Plans are counted by the way that they move.
#include "core/observe/training/route_counter.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace rueda {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

EndedPlan ended(std::uint64_t bytes, std::string_view between = "ring", std::int64_t nanoseconds = 100) {
  return {.route = {.between = between, .sent_as = Compression::fp16},
          .backend = "tcp",
          .tensors = 3,
          .bytes = bytes,
          .nanoseconds = nanoseconds};
}

TrainingReading reading_of(const TrainingRecord& record) { return *read_training_page(record.page()); }

TEST(RouteCounter, PlansOfOneKindAddUp) {
  TrainingRecord record;
  RouteCounter counter;
  counter.count(ended(1000));  // it has not begun
  counter.begin(record, {.fusion_threshold = 64, .linger = std::chrono::milliseconds(1), .chunk_bytes = 8});
  counter.count(ended(1000, "ring", 300));
  counter.count(ended(513, "ring", 200));
  EndedPlan predicted = ended(1024, "ring", 250);
  predicted.predicted = 240;
  counter.count(predicted);
  const TrainingReading reading = reading_of(record);
  ASSERT_THAT(reading.routes, SizeIs(1));
  EXPECT_EQ(reading.routes[0],
            (CountedRoute{
                .number = 0,
                .kind = {.sent_as = Compression::fp16, .size_class = 10, .backend = "tcp", .between = "ring"},
                .count = {.plans = 3,
                          .tensors = 9,
                          .bytes = 2537,
                          .nanoseconds = 750,
                          .fastest = 200,
                          .predicted_plans = 1,
                          .predicted = 240}}));
  EXPECT_EQ(reading.settings.fusion_threshold, 64U);
  EXPECT_EQ(reading.settings.linger, 1'000'000U);
  EXPECT_EQ(reading.settings.chunk_bytes, 8U);
  EXPECT_FALSE(reading.settings.is_tuned);
  EXPECT_EQ(reading.plans_uncounted, 0U);
}

TEST(RouteCounter, EachDifferenceIsAKind) {
  TrainingRecord record;
  RouteCounter counter;
  counter.begin(record, {});
  counter.count(ended(0));
  counter.count(ended(1));
  counter.count(ended(2));
  counter.count(ended(~std::uint64_t{0}));
  counter.count(ended(2, "recursive doubling"));
  EndedPlan plan = ended(2);
  plan.route.inside = "in place";
  counter.count(plan);
  plan.route.ends_on_device = true;
  counter.count(plan);
  plan.operation = Operation::broadcast;
  counter.count(plan);
  plan.dtype = DataType::uint8;
  counter.count(plan);
  plan.backend = "shm";
  counter.count(plan);
  const TrainingReading reading = reading_of(record);
  ASSERT_THAT(reading.routes, SizeIs(9));
  EXPECT_EQ(reading.routes[0].kind.size_class, 0);
  EXPECT_EQ(reading.routes[0].count.plans, 2U) << "no byte, and one";
  EXPECT_EQ(reading.routes[1].kind.size_class, 1);
  EXPECT_EQ(reading.routes[2].kind.size_class, 63);
  EXPECT_EQ(reading.routes[3].kind.between, "recursive doubling");
  EXPECT_EQ(reading.routes[4].kind.inside, "in place");
  EXPECT_TRUE(reading.routes[5].kind.ends_on_device);
  EXPECT_EQ(reading.routes[6].kind.operation, Operation::broadcast);
  EXPECT_EQ(reading.routes[7].kind.dtype, DataType::uint8);
  EXPECT_EQ(reading.routes[8].kind.backend, "shm");
}

TEST(RouteCounter, TheNextRuntimeGoesOnAndOneBesideHasItsOwn) {
  TrainingRecord record;
  for (int generation = 0; generation < 1000; ++generation) {
    RouteCounter counter;
    counter.begin(record, {});
    counter.count(ended(1 << generation % 4));
  }
  ASSERT_THAT(reading_of(record).routes, SizeIs(4));
  EXPECT_EQ(reading_of(record).routes[2].count.plans, 250U);
  std::optional<RouteCounter> one(std::in_place);
  RouteCounter other;
  one->begin(record, {.fusion_threshold = 1});
  other.begin(record, {.fusion_threshold = 2});
  one->count(ended(4));
  other.count(ended(4));
  ASSERT_THAT(reading_of(record).routes, SizeIs(5)) << "two that count at one time share no words";
  EXPECT_EQ(reading_of(record).routes[2].count.plans, 251U);
  EXPECT_EQ(reading_of(record).routes[4].count.plans, 1U);
  EXPECT_EQ(reading_of(record).settings.fusion_threshold, 1U) << "those of the first";
  one.reset();
  other.count(ended(4));
  EXPECT_EQ(reading_of(record).settings.fusion_threshold, 2U) << "the first has ended";
}

TEST(RouteCounter, PlansWithoutRoomAreCounted) {
  TrainingRecord record;
  RouteCounter counter;
  counter.begin(record, {});
  for (int dtype = 0; dtype < kDataTypeCount; ++dtype) {
    for (int size = 0; size < 40; ++size) {
      EndedPlan plan = ended(std::uint64_t{1} << size);
      plan.dtype = static_cast<DataType>(dtype);
      counter.count(plan);
      counter.count(plan);
    }
  }
  EXPECT_THAT(reading_of(record).routes, SizeIs(TrainingPage::kRoutes));
  EXPECT_EQ(reading_of(record).plans_uncounted, 2 * (400 - TrainingPage::kRoutes));
}

TEST(RouteCounter, HearsOfTheTuner) {
  TrainingRecord record;
  RouteCounter counter;
  counter.begin(record, {.fusion_threshold = 64});
  TunerNews news;
  news.parameters = {.fusion_threshold = 32, .linger = std::chrono::microseconds(500), .chunk_bytes = 7};
  news.records = {{.state = "warmup"},
                  {.state = "base"},
                  {.state = "candidate"},
                  {.state = "verdict", .words = std::string(200, 'x')}};
  counter.heard(news);
  const PlanSettings settings = reading_of(record).settings;
  EXPECT_TRUE(settings.is_tuned);
  EXPECT_EQ(settings.fusion_threshold, 32U);
  EXPECT_EQ(settings.linger, 500'000U);
  EXPECT_EQ(settings.chunk_bytes, 7U);
  EXPECT_EQ(settings.tuner_samples, 2U);
  EXPECT_EQ(settings.tuner_words, std::string(TrainingPage::kVerdictBytes, 'x'));
}

TEST(RouteCounter, AForkedChildCountsNothing) {
  TrainingRecord record;
  const pid_t child = ::fork();
  if (child == 0) {
    RouteCounter counter;
    counter.begin(record, {.fusion_threshold = 9});
    counter.count(ended(4));
    ::_exit(0);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(reading_of(record).routes, IsEmpty());
  EXPECT_EQ(reading_of(record).settings.fusion_threshold, 0U);
  EXPECT_EQ(reading_of(record).plans_uncounted, 0U);
}

TEST(RouteCounter, CountersOfSeveralThreads) {
  TrainingRecord record;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        RouteCounter counter;
        counter.begin(record, {});
        for (int plan = 0; plan < 10; ++plan) counter.count(ended(1 << plan));
      }
    });
  }
  for (int i = 0; i < 100; ++i) reading_of(record);
  for (std::thread& thread : threads) thread.join();
  std::uint64_t plans = 0;
  for (const CountedRoute& route : reading_of(record).routes) plans += route.count.plans;
  EXPECT_EQ(plans, 4000U);
}

}  // namespace
}  // namespace rueda
