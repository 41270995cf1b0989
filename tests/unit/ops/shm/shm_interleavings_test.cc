// SPDX-License-Identifier: Apache-2.0
// Works in shared memory with few slots or areas and ranks that fall behind: nothing is overwritten too
// early, and nobody waits for ever. Here one thread plays all ranks, in any order of their turns.
#include "tests/support/worlds/shm_job.h"

namespace rueda::shm_job {
namespace {

class ShmInterleavings : public testing::TestWithParam<Kind> {};

TEST_P(ShmInterleavings, AnyInterleavingOfAnySets) {
  std::size_t went_in_place = 0, streamed = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    Job job(GetParam(), 2 + static_cast<Rank>(seed % 4), 40, random);
    while (!job.over()) {
      ASSERT_TRUE(job.alive()) << "all sleep, seed " << seed;
      job.turn(job.ranks[random() % job.ranks.size()], 1 + random() % 6);
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
    }
    went_in_place += job.went_in_place;
    streamed += job.streamed;
  }
  const bool some_do = GetParam() == Kind::in_place || GetParam() == Kind::mixed;
  EXPECT_EQ(went_in_place > 1000, some_do) << went_in_place;
  EXPECT_GT(streamed, 500u);
}

// Works that are abandoned before they have written, after that, or when another rank's is: nobody waits for
// ever, and who comes to a good end has right values.
TEST_P(ShmInterleavings, AnyOfThemMayBeAbandoned) {
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
TEST_P(ShmInterleavings, ARankThatIsDelayedAtEveryPhase) {
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

INSTANTIATE_TEST_SUITE_P(Kinds, ShmInterleavings, testing::ValuesIn(kKinds), name_of);

}  // namespace
}  // namespace rueda::shm_job
