// SPDX-License-Identifier: Apache-2.0
// When a Plan is complete on a rank, and with which words, in any order of what may happen to it.
#include "core/engine/running_works.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <stdexcept>

#include "core/observe/training/training_record.h"

namespace rueda {
namespace {

// Purpose: what a Work does next, as the test says.
struct Script {
  std::function<Work::Step()> step = [] { return Work::Step::waiting; };
  bool abandoned = false;
  bool alive = true;
};

class ScriptedWork final : public Work {
 public:
  explicit ScriptedWork(Script& script) : script_(script) {}
  ~ScriptedWork() override { script_.alive = false; }
  Step step() override { return script_.step(); }
  void abandon() override { script_.abandoned = true; }
  std::string_view phase() const override { return "acting"; }
  PlanRoute route() const override { return {.between = "by the script"}; }

 private:
  Script& script_;
};

class ScriptedBackend final : public Backend {
 public:
  explicit ScriptedBackend(std::map<std::uint64_t, Script>& scripts) : scripts_(scripts) {}
  std::string_view name() const override { return "scripted"; }
  bool can_run(const Plan&) const override { return true; }
  std::unique_ptr<Work> start(const Plan& plan, std::span<Entry>) override {
    return std::make_unique<ScriptedWork>(scripts_[plan.number]);
  }
  bool rings_doorbell() const override { return true; }

 private:
  std::map<std::uint64_t, Script>& scripts_;
};

class WorksTest : public testing::Test {
 protected:
  WorksTest() { backends_.push_back(std::make_unique<ScriptedBackend>(scripts_)); }

  void call(std::uint64_t number, bool joined = false, Shape shape = {}) {
    Plan plan;
    plan.number = number;
    Request request;
    request.name = std::to_string(number);
    request.dtype = DataType::uint8;
    plan.tensors = {{0, true, std::make_shared<const Request>(request), 0}};
    request.shape = std::move(shape);
    std::vector<Entry> entries;
    entries.emplace_back(std::make_shared<const Request>(std::move(request)),
                         std::make_shared<HandleState>());
    entries[0].joined = joined;
    works_.add(std::move(plan), std::move(entries));
  }
  // Every Work of these tests waits until its script says something else.
  void start() { ASSERT_TRUE(works_.step(now_)); }
  Script& script(std::uint64_t number) { return scripts_[number]; }
  void will(std::uint64_t number, Work::Step step) {
    script(number).step = [step] { return step; };
  }
  void will_fail(std::uint64_t number) {
    script(number).step = []() -> Work::Step { throw WorkFailure{"it wants something"}; };
  }

  std::map<std::uint64_t, Script> scripts_;
  RunningWorks::Backends backends_;
  Observer observer_;
  Time now_{std::chrono::seconds(100)};
  std::map<std::string, Status> completed_;
  std::map<std::uint64_t, std::string> failed_;
  const Status first_ = Status::backend_error("first"), second_ = Status::backend_error("second");
  RunningWorks works_{
      backends_,
      2,
      observer_,
      {[this](const Plan&, std::span<Entry> entries, const Status& status) {
         for (const Entry& entry : entries) completed_[entry.request().name] = status;
       },
       [this](const Plan& plan, const WorkFailure& failure) { failed_[plan.number] += failure.what; }}};
};

TEST_F(WorksTest, ThereAreAtMostSoMany) {
  for (std::uint64_t number : {1, 2, 3}) call(number);
  start();
  EXPECT_TRUE(works_.phase_of(2));
  EXPECT_FALSE(works_.phase_of(3));
  will(1, Work::Step::done);
  EXPECT_TRUE(works_.step(now_));
  EXPECT_EQ(completed_.at("1"), Status{});
  start();
  EXPECT_TRUE(works_.phase_of(3));
}

TEST_F(WorksTest, OnlyADoneWorkIsCountedByItsRoute) {
  const auto counted = [] {
    std::uint64_t plans = 0;
    const TrainingReading reading = *read_training_page(TrainingRecord::of_process().page());
    for (const CountedRoute& route : reading.routes)
      if (route.kind.backend == "scripted" && route.kind.between == "by the script")
        plans += route.count.plans;
    return plans;
  };
  observer_.begin({}, {});
  for (std::uint64_t number : {1, 2}) call(number);
  start();
  will(1, Work::Step::done);
  will(2, Work::Step::given_up);
  works_.step(now_);
  works_.abort(2, first_);
  works_.step(now_);
  EXPECT_EQ(completed_.size(), 2U);
  EXPECT_EQ(counted(), 1U);
}

TEST_F(WorksTest, APlanOfAJoinedRankIsCountedByTheSizeThatOthersReduce) {
  observer_.begin({}, {});
  call(1, true, {5000});
  start();
  will(1, Work::Step::done);
  works_.step(now_);
  const TrainingReading reading = *read_training_page(TrainingRecord::of_process().page());
  EXPECT_TRUE(std::ranges::any_of(reading.routes, [](const CountedRoute& route) {
    return route.kind.backend == "scripted" && route.kind.size_class == 13 && route.count.bytes == 5000;
  }));
}

TEST_F(WorksTest, TwoWithMessagesThatLookAlikeDoNotRunTogether) {
  call(1);
  start();
  call(1 + kPlansApart);
  EXPECT_FALSE(works_.step(now_));
  EXPECT_FALSE(works_.phase_of(1 + kPlansApart));
  will(1, Work::Step::done);
  works_.step(now_);
  start();
  EXPECT_TRUE(works_.phase_of(1 + kPlansApart));
}

TEST_F(WorksTest, AFailureRunsOutAndIsCompletedInTheWordsThatCome) {
  call(1);
  start();
  will_fail(1);
  EXPECT_TRUE(works_.step(now_));
  EXPECT_EQ(failed_.at(1), "it wants something");
  EXPECT_TRUE(script(1).abandoned);
  will(1, Work::Step::again);
  works_.step(now_);
  works_.abort(1, first_);
  works_.abort(1, second_);
  works_.step(now_);
  EXPECT_TRUE(completed_.empty());  // its tensors are still in use
  will(1, Work::Step::given_up);
  works_.step(now_);
  EXPECT_EQ(completed_.at("1"), first_);
  EXPECT_TRUE(works_.empty());
}

TEST_F(WorksTest, WhomAnotherRankMadeGiveUpWaitsForTheWords) {
  call(1);
  start();
  will(1, Work::Step::given_up);
  works_.step(now_);
  EXPECT_FALSE(script(1).alive);
  EXPECT_FALSE(works_.step(now_));
  EXPECT_TRUE(completed_.empty());
  EXPECT_TRUE(works_.running());
  EXPECT_NE(works_.phase(), "acting");
  works_.abort(1, first_);
  EXPECT_TRUE(works_.step(now_));
  EXPECT_EQ(completed_.at("1"), first_);
  EXPECT_TRUE(failed_.empty());
}

TEST_F(WorksTest, AnAbortMayComeBeforeTheWorkBegins) {
  call(1);
  works_.abort(1, first_);
  works_.abort(1, second_);
  start();
  EXPECT_TRUE(script(1).abandoned);
  will(1, Work::Step::given_up);
  works_.step(now_);
  EXPECT_EQ(completed_.at("1"), first_);
}

TEST_F(WorksTest, WhatIsOverKeepsItsResult) {
  call(1);
  start();
  will(1, Work::Step::done);
  works_.step(now_);
  works_.abort(1, first_);
  works_.abort(7, first_);  // of a set without this rank
  EXPECT_EQ(completed_.at("1"), Status{});
  EXPECT_TRUE(works_.empty());
}

TEST_F(WorksTest, OthersGoOnBesideOneThatFailed) {
  for (std::uint64_t number : {1, 2}) call(number);
  start();
  will_fail(1);
  works_.step(now_);
  will(1, Work::Step::waiting);
  will(2, Work::Step::done);
  works_.step(now_);
  EXPECT_EQ(completed_.at("2"), Status{});
  EXPECT_FALSE(completed_.contains("1"));
}

TEST_F(WorksTest, OneThatCannotEvenRunOutEndsTheJob) {
  call(1);
  start();
  will_fail(1);
  works_.step(now_);
  EXPECT_THROW(works_.step(now_), std::runtime_error);
}

TEST_F(WorksTest, ALossEndsAllOfThem) {
  for (std::uint64_t number : {1, 2, 3}) call(number);
  start();
  works_.abort(1, first_);
  const Status lost = Status::peer_lost("rank 1");
  works_.end(lost);
  // The third has been called and has not begun.
  EXPECT_EQ(completed_, (std::map<std::string, Status>{{"1", lost}, {"2", lost}, {"3", lost}}));
  EXPECT_FALSE(script(1).alive || script(2).alive);
  EXPECT_TRUE(works_.empty());
}

// One that began later may wait for one before it, not the other way round.
TEST_F(WorksTest, SinceWhenTheyHaveNotMoved) {
  using std::chrono::seconds;
  using Unmoved = std::vector<std::pair<std::uint64_t, Time>>;
  const auto unmoved = [this] {
    Unmoved found;
    works_.for_unmoved([&](const Plan& plan, Time since) { found.emplace_back(plan.number, since); });
    return found;
  };
  const Time begin = now_;
  for (std::uint64_t number : {1, 2}) call(number);
  start();
  now_ += seconds(1);
  works_.step(now_);
  EXPECT_EQ(unmoved(), (Unmoved{{1, begin}, {2, begin}}));
  will(2, Work::Step::again);
  works_.step(now_);
  EXPECT_EQ(unmoved(), (Unmoved{{1, begin}, {2, now_}}));
  will(1, Work::Step::again);
  will(2, Work::Step::waiting);
  now_ += seconds(1);
  works_.step(now_);
  EXPECT_EQ(unmoved(), (Unmoved{{1, now_}, {2, now_}}));
  EXPECT_EQ(works_.phase_of(2), "acting");
  EXPECT_FALSE(works_.phase_of(3));
}

TEST_F(WorksTest, APlanWithoutAWorkWaitsForItsTurn) {
  for (std::uint64_t number : {1, 2}) call(number);
  start();
  Plan refused;
  refused.number = 3;
  refused.status = second_;
  Request request;
  request.name = "3";
  const auto shared = std::make_shared<const Request>(std::move(request));
  refused.tensors = {{0, true, shared, 0}};
  std::vector<Entry> entries;
  entries.emplace_back(shared, std::make_shared<HandleState>());
  works_.add(std::move(refused), std::move(entries));
  EXPECT_FALSE(works_.step(now_));
  EXPECT_TRUE(completed_.empty());
  will(1, Work::Step::done);
  works_.step(now_);
  start();
  EXPECT_EQ(completed_.at("3"), second_);
  EXPECT_FALSE(scripts_.contains(3));
}

TEST_F(WorksTest, AStandInWithoutMemoryIsAFailure) {
  call(1, true, {std::numeric_limits<std::int64_t>::max()});
  start();
  EXPECT_TRUE(script(1).abandoned);
  EXPECT_NE(failed_.at(1).find("no memory for what stands in for it"), std::string::npos);
}

}  // namespace
}  // namespace rueda
