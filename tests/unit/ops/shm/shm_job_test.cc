// SPDX-License-Identifier: Apache-2.0
// Works in shared memory with few slots or areas and ranks that fall behind: nothing is overwritten too
// early, nobody waits for ever, and who sleeps is rung.
#include <chrono>
#include <thread>

#include "tests/support/shm_job.h"

namespace rueda::shm_job {
namespace {

class ShmJob : public testing::TestWithParam<Kind> {};

TEST_P(ShmJob, AnyInterleavingOfAnySets) {
  std::size_t went_in_place = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Job job(GetParam(), 2 + static_cast<Rank>(seed % 4), 40, random);
    while (!job.over()) {
      ASSERT_TRUE(job.alive()) << "all sleep, seed " << seed;
      job.turn(job.ranks[random() % job.ranks.size()], 1 + random() % 6);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    }
    went_in_place += job.went_in_place;
  }
  EXPECT_EQ(went_in_place > 1000, GetParam() == Kind::in_place) << went_in_place;
}

// Works that are abandoned before they have written, after that, or when another rank's is: nobody waits for
// ever, and who comes to a good end has right values.
TEST_P(ShmJob, AnyOfThemMayBeAbandoned) {
  std::size_t ended_well = 0, given_up = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Job job(GetParam(), 2 + static_cast<Rank>(seed % 4), 40, random);
    job.gives_up_in_16 = 1 + seed % 8;
    while (!job.over()) {
      ASSERT_TRUE(job.alive()) << "all sleep, seed " << seed;
      job.turn(job.ranks[random() % job.ranks.size()], 1 + random() % 6);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    }
    job.check_untouched();
    ended_well += job.ended_well;
    given_up += job.given_up;
  }
  EXPECT_GT(ended_well, 1000u);
  EXPECT_GT(given_up, 1000u);
}

// One rank stops after each number of steps in its turn until no other can do anything, then goes on.
TEST_P(ShmJob, ARankThatIsDelayedAtEveryPhase) {
  for (std::size_t delayed_at = 0; delayed_at < 60; ++delayed_at) {
    for (Rank late = 0; late < 3; ++late) {
      std::mt19937 random(7);
      Job job(GetParam(), 3, 20, random);
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

// The same with a thread for each rank: for ThreadSanitizer. Two slots, sets that overlap, Works that are
// abandoned.
TEST_P(ShmJob, RanksInThreadsOfWhichOneIsDelayed) {
  std::atomic<int> late{0};
  for (int delayed_at = 0; delayed_at < 24; ++delayed_at) {
    std::mt19937 random(static_cast<unsigned>(delayed_at));
    Job job(GetParam(), 3, 20, random);
    job.gives_up_in_16 = delayed_at % 3 == 0 ? 2 : 0;
    std::vector<std::thread> threads;
    for (Simulated& rank : job.ranks) {
      threads.emplace_back([&job, &rank, &late, delayed_at] {
        const auto begin = std::chrono::steady_clock::now();
        for (int turns = 0; !job.over(rank); ++turns) {
          if (rank.rank == delayed_at % 3 && turns == delayed_at) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            ++late;
          }
          job.turn(rank, 1 + static_cast<std::size_t>(turns) % 4);
          std::this_thread::yield();
          if (std::chrono::steady_clock::now() - begin < std::chrono::seconds(50)) continue;
          ADD_FAILURE() << "rank " << rank.rank << " is stuck, delayed at " << delayed_at;
          return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_FALSE(HasFailure());
    job.check_untouched();
  }
  EXPECT_GT(late, 0);  // the first always is; others may be through before their turn
}

// A thread for each rank, which sleeps where it finds nothing to do until it is rung.
TEST_P(ShmJob, WhoSleepsIsRung) {
  constexpr auto kLimit = std::chrono::seconds(20);
  std::mt19937 random(11);
  Job job(GetParam(), 3, 3000, random);
  std::atomic<int> slept{0};
  std::vector<std::thread> threads;
  for (Simulated& rank : job.ranks) {
    threads.emplace_back([&job, &rank, &slept, kLimit] {
      Bell& bell = rank.neighbours->bell(rank.rank);
      while (!job.over(rank)) {
        job.turn(rank, 100);
        if (!rank.asleep || job.over(rank)) continue;
        const auto begin = std::chrono::steady_clock::now();
        bell.sleep(rank.heard, kLimit);
        rank.asleep = false;  // also when a ring of before has woken it
        ++slept;
        if (std::chrono::steady_clock::now() - begin < kLimit) continue;
        ADD_FAILURE() << "nobody rang rank " << rank.rank << ", which waits in "
                      << rank.running.front().work->phase();
        return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(slept, 0);
}

std::string name_of(const testing::TestParamInfo<Kind>& info) {
  constexpr const char* kNames[] = {"OneShot", "Staged", "Exchange", "InPlace", "Adasum"};
  return kNames[static_cast<int>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Kinds, ShmJob,
                         testing::Values(Kind::one_shot, Kind::staged, Kind::exchange, Kind::in_place,
                                         Kind::adasum),
                         name_of);

}  // namespace
}  // namespace rueda::shm_job
