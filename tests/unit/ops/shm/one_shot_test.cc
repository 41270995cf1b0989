// SPDX-License-Identifier: Apache-2.0
// One-shots with few slots and ranks that fall behind: nothing is overwritten too early, nobody waits for
// ever, and who sleeps is rung.
#include "ops/shm/one_shot.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>

#include "core/control/message.h"

namespace rueda {
namespace {

constexpr std::int64_t kElements = 5;
constexpr std::size_t kSlots = 2;
constexpr std::size_t kInFlight = 4;  // so that several Works may want one slot

// One rank: its Works in the order of Plans, and whether it sleeps.
struct Simulated {
  struct Running {
    Plan plan;
    std::vector<std::int32_t> values;
    std::vector<Entry> entries;
    std::unique_ptr<Work> work;
    std::size_t gives_up_after = 0;  // steps; 0: never
  };

  Rank rank;
  std::unique_ptr<Neighbours> neighbours;
  one_shot::Use last_use[kSlots];
  std::size_t next = 0;  // of all Plans
  std::list<Running> running;
  bool asleep = false;
  std::uint32_t heard = 0;
};

struct Job {
  std::vector<Simulated> ranks;
  std::vector<std::vector<Rank>> plans;  // members of Plan i + 1
  unsigned gives_up_in_16 = 0;           // how many of its Works a rank abandons, at some time
  std::size_t ended_well = 0;            // Works, of Plans of which some are abandoned ...
  std::size_t given_up = 0;              // ... and those

  Job(Rank size, std::size_t count, std::mt19937& random) {
    Welcome welcome;
    for (Rank rank = 0; rank < size; ++rank) {
      Simulated& simulated = ranks.emplace_back();
      simulated.rank = rank;
      simulated.neighbours = std::make_unique<Neighbours>(rank, Segment::make().segment);
      welcome.hosts.emplace_back("host");
      welcome.process_ids.push_back(1);
      welcome.cards.push_back(simulated.neighbours->card());
    }
    for (Simulated& simulated : ranks) simulated.neighbours->meet(welcome);
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<Rank>& members = plans.emplace_back();
      while (members.empty()) {
        for (Rank rank = 0; rank < size; ++rank) {
          if (random() % 3 != 0) members.push_back(rank);
        }
      }
    }
  }

  // The value of element i that `rank` brings to a Plan, and what all of them sum to.
  static std::int32_t value(std::uint64_t plan, Rank rank, std::int64_t i) {
    return static_cast<std::int32_t>(plan * 1000 + static_cast<std::uint64_t>(rank) * 10) +
           static_cast<std::int32_t>(i);
  }
  std::int32_t sum(std::uint64_t plan, std::int64_t i) const {
    std::int32_t total = 0;
    for (Rank member : plans[plan - 1]) total += value(plan, member, i);
    return total;
  }

  void begin(Simulated& rank) {
    const std::uint64_t number = ++rank.next;
    const std::vector<Rank>& members = plans[number - 1];
    if (std::ranges::find(members, rank.rank) == members.end()) return;
    Simulated::Running& running = rank.running.emplace_back();
    running.plan.number = number;
    running.plan.dtype = DataType::int32;
    Request request;
    request.name = "x";
    request.dtype = running.plan.dtype;
    request.shape = {kElements};
    running.plan.tensors = {{0, true, std::make_shared<const Request>(request), 64}};
    if (number % 5 == 0) running.plan.operation = Operation::barrier;
    for (std::int64_t i = 0; i < kElements; ++i) running.values.push_back(value(number, rank.rank, i));
    Entry& entry = running.entries.emplace_back();
    entry.submission.output = {running.values.data(), DataType::int32, {kElements}, {}};
    entry.submission.input = entry.submission.output;
    const std::size_t slot = number % kSlots;
    running.work = one_shot::start(running.plan, running.entries, *rank.neighbours, rank.rank, members, slot,
                                   rank.last_use[slot]);
    const std::size_t dice = number * 31 + static_cast<std::size_t>(rank.rank) * 17;
    if (dice % 16 < gives_up_in_16) running.gives_up_after = 1 + dice / 16 % 3;
  }

  // One turn of a coordinator, up to `steps` steps of Works.
  void turn(Simulated& rank, std::size_t steps) {
    BellWord& word = rank.neighbours->contents(rank.rank).bell;
    if (rank.asleep && word.rings.load() == rank.heard) return;
    Bell& bell = rank.neighbours->bell(rank.rank);
    rank.heard = bell.listen();
    rank.asleep = true;
    while (rank.next < plans.size() && rank.running.size() < kInFlight) {
      begin(rank);
      rank.asleep = false;
    }
    for (auto running = rank.running.begin(); running != rank.running.end() && steps > 0; --steps) {
      if (running->gives_up_after == 1) running->work->abandon();
      if (running->gives_up_after > 0) --running->gives_up_after;
      const Work::Step step = running->work->step();
      if (step == Work::Step::done || step == Work::Step::given_up) {
        ++(step == Work::Step::done ? ended_well : given_up);
        if (step == Work::Step::done) check(*running);
        running = rank.running.erase(running);
        rank.asleep = false;
      } else {
        ++running;
      }
    }
    if (steps == 0) rank.asleep = false;  // has not looked at everything
    if (!rank.asleep) bell.stay_awake();
  }

  void check(const Simulated::Running& running) const {
    if (running.plan.operation == Operation::barrier) return;
    for (std::int64_t i = 0; i < kElements; ++i)
      ASSERT_EQ(running.values[i], sum(running.plan.number, i)) << "plan " << running.plan.number;
  }

  bool over(const Simulated& rank) const { return rank.next == plans.size() && rank.running.empty(); }
  bool over() const {
    return std::ranges::all_of(ranks, [this](const Simulated& rank) { return over(rank); });
  }
  // Whether somebody can still do something.
  bool alive() const {
    return std::ranges::any_of(ranks, [this](const Simulated& rank) {
      return !over(rank) &&
             (!rank.asleep || rank.neighbours->contents(rank.rank).bell.rings.load() != rank.heard);
    });
  }
};

TEST(OneShot, AnyInterleavingOfAnySets) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Job job(2 + static_cast<Rank>(seed % 4), 40, random);
    while (!job.over()) {
      ASSERT_TRUE(job.alive()) << "all sleep, seed " << seed;
      job.turn(job.ranks[random() % job.ranks.size()], 1 + random() % 6);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    }
  }
}

// Works that are abandoned before they have written, after that, or when another rank's is: nobody waits for
// ever, and who comes to a good end has right values.
TEST(OneShot, AnyOfThemMayBeAbandoned) {
  std::size_t ended_well = 0, given_up = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Job job(2 + static_cast<Rank>(seed % 4), 40, random);
    job.gives_up_in_16 = 1 + seed % 8;
    while (!job.over()) {
      ASSERT_TRUE(job.alive()) << "all sleep, seed " << seed;
      job.turn(job.ranks[random() % job.ranks.size()], 1 + random() % 6);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    }
    ended_well += job.ended_well;
    given_up += job.given_up;
  }
  EXPECT_GT(ended_well, 1000u);
  EXPECT_GT(given_up, 1000u);
}

// One rank stops after each number of steps in its turn until no other can do anything, then goes on.
TEST(OneShot, ARankThatIsDelayedAtEveryPhase) {
  for (std::size_t delayed_at = 0; delayed_at < 60; ++delayed_at) {
    for (Rank late = 0; late < 3; ++late) {
      std::mt19937 random(7);
      Job job(3, 20, random);
      for (std::size_t step = 0; step < delayed_at; ++step) {
        for (Simulated& rank : job.ranks) job.turn(rank, 1);
      }
      for (int idle = 0; idle < 100; ++idle) {
        for (Simulated& rank : job.ranks) {
          if (rank.rank != late) job.turn(rank, 100);
        }
      }
      for (int turns = 0; !job.over(); ++turns) {
        ASSERT_TRUE(job.alive() && turns < 10'000) << "stuck, rank " << late << " after " << delayed_at;
        for (Simulated& rank : job.ranks) job.turn(rank, 1);
        ASSERT_FALSE(HasFatalFailure());
      }
    }
  }
}

TEST(OneShot, OnlyWhatFitsIsTaken) {
  auto plan = [](DataType dtype, std::int64_t offset, std::int64_t elements) {
    Plan plan;
    plan.dtype = dtype;
    Request request;
    request.name = "x";
    request.dtype = dtype;
    request.shape = {elements};
    plan.tensors = {{0, true, std::make_shared<const Request>(request), offset}};
    return plan;
  };
  EXPECT_TRUE(one_shot::fits(plan(DataType::float32, 0, 1024)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float32, 0, 1025)));
  EXPECT_TRUE(one_shot::fits(plan(DataType::float32, 64, 1008)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float32, 64, 1009)));
  EXPECT_TRUE(one_shot::fits(plan(DataType::bfloat16, 0, 1024)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::bfloat16, 0, 1025)));
  EXPECT_TRUE(one_shot::fits(plan(DataType::uint8, 0, 4096)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float32, 2, 1)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float32, -64, 1)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float32, 0, -1)));
  EXPECT_FALSE(one_shot::fits(plan(DataType::float64, std::int64_t{1} << 62, std::int64_t{1} << 62)));
  Plan gather = plan(DataType::float32, 0, 1);
  gather.operation = Operation::allgather;
  EXPECT_FALSE(one_shot::fits(gather));
}

}  // namespace
}  // namespace rueda
