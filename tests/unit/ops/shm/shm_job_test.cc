// SPDX-License-Identifier: Apache-2.0
// Works in shared memory with few slots or areas and ranks that fall behind: nothing is overwritten too
// early, nobody waits for ever, and who sleeps is rung. Here each rank is a thread.
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "tests/support/worlds/shm_job.h"

namespace rueda::shm_job {
namespace {

class ShmJob : public testing::TestWithParam<Kind> {};

// What a delayed rank waits for: turns in a row in which each rank found nothing to do.
using IdleTurns = std::array<std::atomic<int>, 3>;
constexpr int kNone = 1 << 30;  // turns of a rank that is through

// Abandons every second Work of those that wait for others.
void give_up_some(Simulated& rank) {
  for (Simulated::Running& running : rank.running) {
    if (running.plan.number % 2 == 0 || std::exchange(running.seen, true)) continue;
    running.work->abandon();
    rank.asleep = false;
  }
}

void run_until_over(Job& job, Simulated& rank, IdleTurns& idle) {
  const auto begin = std::chrono::steady_clock::now();
  for (unsigned turns = 0; !job.over(rank); ++turns) {
    job.turn(rank, 1 + turns % (kInFlight + 2));
    rank.asleep ? static_cast<void>(++idle[rank.rank]) : idle[rank.rank].store(0);
    if (idle[rank.rank] == 2 && job.gives_up_in_16 > 0) give_up_some(rank);
    std::this_thread::yield();
    if (std::chrono::steady_clock::now() - begin < std::chrono::seconds(50)) continue;
    ADD_FAILURE() << "rank " << rank.rank << " is stuck";
    break;
  }
  idle[rank.rank] = kNone;
}

// Until the others have come as far as they can without `late`; on a busy machine not quite.
void let_the_others_run(IdleTurns& idle, Rank late) {
  const auto begin = std::chrono::steady_clock::now();
  for (std::atomic<int>& turns : idle) {
    if (int found = turns; found != kNone) turns.compare_exchange_strong(found, 0);
  }
  auto at_rest = [&](Rank rank) { return rank == late || idle[rank] > 2; };
  while (!(at_rest(0) && at_rest(1) && at_rest(2))) {
    if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(100)) return;
    std::this_thread::yield();
  }
}

// A thread for each rank. `late` stops in each of its Works when that has moved so many times. If Works are
// abandoned at all it then abandons every fourth, and the others some for which it lets them wait. How many
// have stopped.
std::size_t run_with_delays(Job& job, Rank late, std::size_t delayed_at, unsigned gives_up_in_16) {
  job.gives_up_in_16 = gives_up_in_16;
  IdleTurns idle{};
  std::size_t stopped = 0;
  job.ranks[late].before_step = [&](Simulated::Running& running) {
    if (running.moves != delayed_at || std::exchange(running.seen, true)) return;
    let_the_others_run(idle, late);
    if (gives_up_in_16 > 0 && running.plan.number % 4 == 0) running.work->abandon();
    ++stopped;
  };
  std::vector<std::thread> threads;
  for (Simulated& rank : job.ranks) threads.emplace_back([&] { run_until_over(job, rank, idle); });
  for (std::thread& thread : threads) thread.join();
  job.check_untouched();
  return stopped;
}

// For ThreadSanitizer: two slots and areas, sets that overlap, Works that are abandoned. Each rank in turn is
// delayed at every step of its Works, until none makes so many.
TEST_P(ShmJob, RanksInThreadsOfWhichOneIsDelayedAtEveryPhase) {
  std::size_t given_up = 0, side_by_side = 0;
  for (Rank late = 0; late < 3; ++late) {
    std::size_t delayed_at = 0;
    for (std::size_t stopped = 1; stopped > 0; ++delayed_at) {
      stopped = 0;
      for (const unsigned gives_up_in_16 : {0U, 4U}) {
        SCOPED_TRACE(testing::Message() << "rank " << late << " is late after " << delayed_at);
        std::mt19937 random(static_cast<unsigned>(delayed_at) * 3 + static_cast<unsigned>(late));
        Job job(GetParam(), 3, 72, random);
        stopped += run_with_delays(job, late, delayed_at, gives_up_in_16);
        ASSERT_FALSE(HasFailure());
        given_up += job.given_up;
        side_by_side += job.side_by_side;
      }
    }
    EXPECT_GE(delayed_at, GetParam() == Kind::one_shot ? 2U : 5U);
  }
  EXPECT_GT(given_up, 0u);
  EXPECT_EQ(side_by_side > 100, GetParam() == Kind::mixed) << side_by_side;
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
      EventCount& doorbell = rank.local_peers->doorbell(rank.rank);
      while (!job.over(rank)) {
        job.turn(rank, 100);
        if (!rank.asleep || job.over(rank)) continue;
        const auto begin = std::chrono::steady_clock::now();
        doorbell.sleep(rank.heard, kLimit);
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

INSTANTIATE_TEST_SUITE_P(Kinds, ShmJob, testing::ValuesIn(kKinds), name_of);

}  // namespace
}  // namespace rueda::shm_job
