// SPDX-License-Identifier: Apache-2.0
// Threads that wait for a background thread that does not move are told, once.
#include "core/engine/submissions/waiters.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "core/engine/submissions/handle_state.h"
#include "rueda/handle.h"

namespace rueda {
namespace {

const Status kStuck = Status::backend_error("stuck");

TEST(Waiters, WhoSleepsAndWhoComesLaterAreTold) {
  const auto waiters = std::make_shared<Waiters>(std::make_shared<EventCount>());
  const Handle early(std::make_shared<HandleState>(waiters)), late(std::make_shared<HandleState>(waiters));
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { EXPECT_EQ(early.wait_status(), kStuck); });
  waiters->fail(kStuck);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(late.wait_status(), kStuck);
}

TEST(Waiters, TheFirstCompletionWins) {
  for (int round = 0; round < 200; ++round) {
    const auto waiters = std::make_shared<Waiters>(std::make_shared<EventCount>());
    const auto state = std::make_shared<HandleState>(waiters);
    std::thread engine([&] { state->complete({}, nullptr); });
    std::thread watchdog([&] { waiters->fail(kStuck); });
    const Handle handle(state);
    const Status first = handle.wait_status();
    EXPECT_TRUE(first.ok() || first == kStuck);
    engine.join();
    watchdog.join();
    EXPECT_EQ(handle.wait_status(), first);
  }
}

TEST(Waiters, TensorsOfTheStuckAreNotGivenBackBeforeTheirHandle) {
  const auto waiters = std::make_shared<Waiters>(std::make_shared<EventCount>());
  auto state = std::make_shared<HandleState>(waiters);
  auto tensor = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = tensor;
  waiters->fail(kStuck);
  EXPECT_EQ(Handle(state).wait_status(), kStuck);
  state->complete({}, std::move(tensor));  // the background thread moves after all
  EXPECT_FALSE(watch.expired());
  state.reset();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace rueda
