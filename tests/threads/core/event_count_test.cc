// SPDX-License-Identifier: Apache-2.0
// Bells between threads and between processes.
#include "core/engine/wait/event_count.h"
#include "tests/support/sanitized.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace rueda {
namespace {

const int kRings = in_full("core") ? sanitized(50'000, 500'000) : 50'000;

// What two sides share: a doorbell for each, and what each waits for.
struct Shared {
  EventCountWord there, back;
  std::atomic<int> sent{0}, seen{0};
};

// Waits until `value` is `wanted`. False if a sleep ended by its time limit: a ring was missed.
bool wait_for(EventCount& doorbell, std::atomic<int>& value, int wanted) {
  constexpr auto kLimit = std::chrono::seconds(20);
  while (value.load() < wanted) {
    const std::uint32_t heard = doorbell.listen();
    if (value.load() >= wanted) {
      doorbell.stay_awake();
      return true;
    }
    const auto begin = std::chrono::steady_clock::now();
    doorbell.sleep(heard, kLimit);
    if (std::chrono::steady_clock::now() - begin >= kLimit) return false;
  }
  return true;
}

EventCount over(Shared& shared, EventCountWord Shared::*word) {
  return EventCount(std::shared_ptr<EventCountWord>(std::shared_ptr<void>(), &(shared.*word)));
}

bool answer(Shared& shared) {
  EventCount there = over(shared, &Shared::there), back = over(shared, &Shared::back);
  for (int i = 1; i <= kRings; ++i) {
    if (!wait_for(there, shared.sent, i)) return false;
    shared.seen.store(i);
    back.ring();
  }
  return true;
}

bool ask(Shared& shared) {
  EventCount there = over(shared, &Shared::there), back = over(shared, &Shared::back);
  for (int i = 1; i <= kRings; ++i) {
    shared.sent.store(i);
    there.ring();
    if (!wait_for(back, shared.seen, i)) return false;
  }
  return true;
}

TEST(EventCount, BetweenThreadsNoRingIsMissed) {
  Shared shared;
  bool answered = false;
  std::thread other([&] { answered = answer(shared); });
  EXPECT_TRUE(ask(shared));
  other.join();
  EXPECT_TRUE(answered);
}

TEST(EventCount, BetweenProcessesNoRingIsMissed) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Shared& shared = *std::construct_at(static_cast<Shared*>(memory));
  const pid_t child = fork();
  if (child == 0) _exit(answer(shared) ? 0 : 1);
  EXPECT_TRUE(ask(shared));
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  munmap(memory, sizeof(Shared));
}

// Many ring at once, and the first alone wakes: the sleeper still hears of each.
TEST(EventCount, OfManyRingersNoneIsMissed) {
  constexpr int kRingers = 4;
  Shared shared;
  std::vector<std::thread> ringers;
  for (int i = 0; i < kRingers; ++i) {
    ringers.emplace_back([&] {
      EventCount doorbell = over(shared, &Shared::there);
      for (int round = 0; round < kRings / kRingers; ++round) {
        // Not before the sleeper has seen the last round: so it sleeps often.
        while (shared.seen.load() < round) std::this_thread::yield();
        shared.sent.fetch_add(1);
        doorbell.ring();
      }
    });
  }
  EventCount doorbell = over(shared, &Shared::there);
  bool heard = true;
  for (int round = 1; round <= kRings / kRingers; ++round) {
    heard = heard && wait_for(doorbell, shared.sent, round * kRingers);
    shared.seen.store(round);
  }
  EXPECT_TRUE(heard);
  for (std::thread& ringer : ringers) ringer.join();
}

}  // namespace
}  // namespace rueda
