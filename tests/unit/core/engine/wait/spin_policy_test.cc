// SPDX-License-Identifier: Apache-2.0
#include "core/engine/wait/spin_policy.h"

#include <gtest/gtest.h>

namespace rueda {
namespace {

using std::chrono::microseconds;

// Without anything moving, from `now` on: how long it polls.
Duration polled(SpinPolicy& polling, Time now) {
  const Time begin = now;
  for (; polling.goes_on(now); now += microseconds(1)) polling.in_vain();
  polling.give_up();
  return now - begin;
}

TEST(SpinPolicy, LooksOnAfterAMoveAndThenGivesUp) {
  SpinPolicy polling{microseconds(50)};
  Time now{microseconds(1000)};
  polling.begin(now);
  EXPECT_FALSE(polling.goes_on(now)) << "nothing has moved yet";
  polling.moved(now, true);
  EXPECT_EQ(polled(polling, now), microseconds(50));
  EXPECT_EQ(polling.since_move(now + microseconds(70)), microseconds(70));
}

TEST(SpinPolicy, InVainWithOneKindOfWaitSaysNothingOfTheOther) {
  SpinPolicy polling{microseconds(50)};
  Time now{microseconds(1000)};
  polling.begin(now);
  for (int wait = 0; wait < 2; ++wait) {
    polling.moved(now, false);
    EXPECT_EQ(polled(polling, now), microseconds(50));
  }
  polling.moved(now, false);
  EXPECT_FALSE(polling.goes_on(now)) << "for this rank's next submission it polled in vain twice";
  polling.moved(now, true);
  EXPECT_TRUE(polling.goes_on(now)) << "not for other ranks";
}

TEST(SpinPolicy, AMoveInTimeKeepsItPolling) {
  SpinPolicy polling{microseconds(50)};
  Time now{microseconds(1000)};
  polling.begin(now);
  for (int wait = 0; wait < 100; ++wait, now += microseconds(10)) {
    polling.moved(now, true);
    ASSERT_TRUE(polling.goes_on(now));
    polling.in_vain();
  }
}

}  // namespace
}  // namespace rueda
