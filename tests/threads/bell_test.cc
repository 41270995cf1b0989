// SPDX-License-Identifier: Apache-2.0
#include "core/engine/bell.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace rueda {
namespace {

// A ring is never missed: every sleep ends by the ring that follows the condition, not by its time limit.
TEST(Bell, NoRingIsMissed) {
  constexpr int kRounds = 50'000;
  Bell there, back;
  std::atomic<int> sent{0}, seen{0};
  auto wait_for = [](Bell& bell, std::atomic<int>& value, int wanted) {
    while (value.load() < wanted) {
      const std::uint32_t heard = bell.listen();
      if (value.load() >= wanted) {
        bell.stay_awake();
        return;
      }
      bell.sleep(heard, std::chrono::seconds(20));
    }
  };
  const auto begin = std::chrono::steady_clock::now();
  std::thread other([&] {
    for (int i = 1; i <= kRounds; ++i) {
      wait_for(there, sent, i);
      seen.store(i);
      back.ring();
    }
  });
  for (int i = 1; i <= kRounds; ++i) {
    sent.store(i);
    there.ring();
    wait_for(back, seen, i);
  }
  other.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace rueda
