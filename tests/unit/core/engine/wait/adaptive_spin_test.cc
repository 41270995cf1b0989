// SPDX-License-Identifier: Apache-2.0
#include "core/engine/wait/adaptive_spin.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

constexpr auto kLongest = std::chrono::microseconds(50);

// Of `waits` waits that all end as told, how many polled.
int polled(AdaptiveSpin& spin, int waits, bool helped) {
  int count = 0;
  for (int i = 0; i < waits; ++i) {
    if (spin.next() == AdaptiveSpin::Duration::zero()) continue;
    ++count;
    spin.ended(helped);
  }
  return count;
}

TEST(AdaptiveSpin, PollsAsLongAsItHelps) {
  AdaptiveSpin spin(kLongest);
  EXPECT_EQ(spin.next(), kLongest);
  EXPECT_EQ(polled(spin, 100, true), 100);
}

TEST(AdaptiveSpin, TriesNowAndThenWhereItDoesNotAndComesBack) {
  AdaptiveSpin spin(kLongest);
  EXPECT_EQ(polled(spin, 2, false), 2);
  EXPECT_EQ(polled(spin, 160, false), 10);
  EXPECT_EQ(polled(spin, 16, true), 1);  // the sixteenth, and from then on all
  EXPECT_EQ(polled(spin, 100, true), 100);
}

TEST(AdaptiveSpin, OneWaitInVainIsNoReason) {
  AdaptiveSpin spin(kLongest);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(polled(spin, 1, false), 1);
    EXPECT_EQ(polled(spin, 1, true), 1);
  }
}

}  // namespace
}  // namespace rueda
